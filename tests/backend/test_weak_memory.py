"""The protocol of the kernel in C under weak memory: every order of its operations is tried.

The operations are those of the functions named here, with the orders that stand in their C; so a
source in which one is weaker must be found wrong, and that it is is tested too.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from backend.weak_memory import (
    STUCK,
    Await,
    Fence,
    Load,
    Op,
    Sleep,
    Store,
    Thread,
    Wake,
    outcomes,
)

KERNEL = Path(__file__).parents[2] / "src" / "steptime" / "backend" / "kernel"
SOURCE = "".join((KERNEL / f"{name}.c").read_text() for name in ("group", "channel"))
_ATOMIC = re.compile(r"atomic_(?:(load|store|fetch_add|thread_fence))\w*\([^;]*?memory_order_(\w+)")


@dataclass(frozen=True)
class Kernel:
    """The orders of some atomic operations of the C: of a fence that is missing, relaxed."""

    source: str

    def order(self, function: str, operation: str) -> str:
        """Of the first such operation in a function."""
        body = re.search(
            rf"^[\w *]+\b{function}\([^;{{]*\) \{{\n(.*?)^\}}", self.source, re.M | re.S
        )
        assert body, f"no {function} in C"
        found = [order for kind, order in _ATOMIC.findall(body[1]) if kind == operation]
        return found[0] if found else "relaxed"

    def await_(self, counter: str, count: int) -> Op:
        """``reached``, until it is."""
        return Await(counter, self.order("reached", "load"), value=count)

    def advance(self, counter: str, count: int) -> list[Op]:
        """``advance`` where nobody sleeps."""
        return [Store(counter, self.order("advance", "store"), value=count)]

    def advance_and_wake(self, counter: str, count: int) -> list[Op]:
        """``advance``, with one who may sleep."""
        return [
            *self.advance(counter, count),
            Fence("", self.order("advance", "thread_fence")),
            Load("asleep", self.order("advance", "load"), "sleeper"),
            Wake(counter, register="sleeper"),
        ]

    def nap(self, counter: str, count: int) -> list[Op]:
        """``nap``, then looking again."""
        return [
            Store("asleep", self.order("nap", "fetch_add"), value=1),
            Fence("", self.order("nap", "thread_fence")),
            Load(counter, self.order("nap", "load"), "seen"),
            Sleep(counter, register="seen", value=count),
            self.await_(counter, count),
        ]


def slots(kernel: Kernel, sets: int = 2) -> bool:
    """Two ranks, four blocks through slots: each reads what the other wrote for that block."""

    def rank(here: int) -> Thread:
        other, ops = 1 - here, list[Op]()
        for point in (1, 2, 3):
            ops.append(Store(f"slot {here} {point % sets}", value=point))
            ops += kernel.advance(f"counter {here}", point)
            ops.append(kernel.await_(f"counter {other}", point))
            ops.append(Load(f"slot {other} {point % sets}", register=f"{here} {point}"))
        return ops

    return all(
        end[STUCK] == 0 and all(end[f"{rank} {point}"] == point for point in (1, 2, 3))
        for end in outcomes(rank(0), rank(1))
        for rank in (0, 1)
    )


def windows(kernel: Kernel) -> bool:
    """Two ranks read each other's tensors in place; after that their owners write them again."""

    def rank(here: int) -> Thread:
        other = 1 - here
        return [
            Store(f"tensor {here}", value=1),
            *kernel.advance(f"counter {here}", 1),
            kernel.await_(f"counter {other}", 1),
            Load(f"tensor {other}", register=f"{here}"),
            *kernel.advance(f"counter {here}", 2),
            kernel.await_(f"counter {other}", 2),
            Store(f"tensor {here}", value=2),
        ]

    ends = outcomes(rank(0), rank(1))
    return all((end["0"], end["1"], end[STUCK]) == (1, 1, 0) for end in ends)


def ring(kernel: Kernel) -> bool:
    """A ring with room for one piece: each is read before the next takes its place."""
    writer, reader = list[Op](), list[Op]()
    for piece in (1, 2, 3):
        writer.append(kernel.await_("read", piece - 1))
        writer.append(Store("ring", value=piece))
        writer += kernel.advance("written", piece)
        reader.append(kernel.await_("written", piece))
        reader.append(Load("ring", register=f"piece {piece}"))
        reader += kernel.advance("read", piece)
    return all(
        end[STUCK] == 0 and all(end[f"piece {piece}"] == piece for piece in (1, 2, 3))
        for end in outcomes(writer, reader)
    )


def offers(kernel: Kernel) -> bool:
    """A writer withdraws its offer, then changes the payload: what is taken is the old payload."""
    writer = [
        Store("payload", value=1),
        Store("offer", kernel.order("set_offer", "store"), value=7),
        Fence("", kernel.order("set_offer", "thread_fence")),
        *kernel.advance("written", 1),
        Store("offer", kernel.order("set_offer", "store"), value=0),
        Fence("", kernel.order("set_offer", "thread_fence")),
        Store("payload", value=2),
    ]
    reader = [
        kernel.await_("written", 1),
        Load("payload", register="taken"),
        Fence("", kernel.order("accept", "thread_fence")),
        Load("offer", register="offered"),
    ]
    return all(end["offered"] == 0 or end["taken"] == 1 for end in outcomes(writer, reader))


def answers(kernel: Kernel) -> bool:
    """A reader that refuses says so before it has read; the writer then sees it."""
    writer = [
        *kernel.advance("written", 1),
        kernel.await_("read", 1),
        Load("refused", kernel.order("offer", "load"), "refused"),
    ]
    reader = [
        kernel.await_("written", 1),
        Store("refused", kernel.order("accept", "store"), value=7),
        *kernel.advance("read", 1),
    ]
    return all(end["refused"] == 7 for end in outcomes(writer, reader))


def sleepers(kernel: Kernel) -> bool:
    """Whoever goes to sleep is woken, and then sees what was written before."""
    return all((end[STUCK], end.get("data")) == (0, 1) for end in _nights(kernel))


def _nights(kernel: Kernel) -> list[dict[str, int]]:
    waker = [Store("data", value=1), *kernel.advance_and_wake("counter", 1)]
    return outcomes(waker, [*kernel.nap("counter", 1), Load("data", register="data")])


PROTOCOLS = (slots, windows, ring, offers, answers, sleepers)

# What is weakened in C, and what then goes wrong.
WEAKER = {
    "reached": (
        r"(\bint reached\(.*?memory_order_)acquire",
        "slots windows ring offers answers",
    ),
    "advance": (
        r"(\bvoid advance\(.*?memory_order_)release",
        "slots windows ring answers sleepers",
    ),
    "wake": (r"(\bvoid advance\(.*?memory_order_)seq_cst", "sleepers"),
    "nap": (r"(\bint nap\(.*?memory_order_)seq_cst", "sleepers"),
    "withdraw": (r"(\bvoid set_offer\(.*?memory_order_)seq_cst", "offers"),
    "accept": (r"(\benum step accept\(.*?memory_order_)seq_cst", "offers"),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_order_of_its_operations_goes_wrong(protocol: Callable[[Kernel], bool]) -> None:
    assert protocol(Kernel(SOURCE))


@pytest.mark.parametrize("where", WEAKER)
def test_a_weaker_order_is_found(where: str) -> None:
    pattern, wrong = WEAKER[where]
    weaker, count = re.subn(pattern, r"\1relaxed", SOURCE, count=1, flags=re.S)
    assert count == 1
    found = [protocol.__name__ for protocol in PROTOCOLS if not protocol(Kernel(weaker))]
    assert found == wrong.split()


@pytest.mark.parametrize("function", ["advance", "nap"])
def test_a_fence_that_lets_loads_pass_stores_leaves_somebody_asleep(function: str) -> None:
    weaker = re.sub(
        rf"(\b{function}\(.*?memory_order_)seq_cst", r"\1acq_rel", SOURCE, count=1, flags=re.S
    )
    assert any(end[STUCK] for end in _nights(Kernel(weaker)))


def test_one_set_of_slots_would_not_do() -> None:
    assert not slots(Kernel(SOURCE), sets=1)


# The interleaver itself, by what C11 and ARM allow of well-known programs.


@pytest.mark.parametrize(
    ("store", "load", "seen"), [("relaxed", "acquire", True), ("release", "relaxed", True),
                                ("release", "acquire", False)]
)  # fmt: skip
def test_message_passing(store: str, load: str, seen: bool) -> None:
    """MP: the flag is set and the data not, unless both sides ask for order."""
    ends = outcomes(
        [Store("data", value=1), Store("flag", store, value=1)],
        [Load("flag", load, "flag"), Load("data", register="data")],
    )
    assert ({"flag": 1, "data": 0, STUCK: 0} in ends) == seen


@pytest.mark.parametrize(
    ("fence", "seen"), [("relaxed", True), ("acq_rel", True), ("seq_cst", False)]
)
def test_store_buffering(fence: str, seen: bool) -> None:
    """SB: neither sees the other's store, unless a full fence follows each."""
    ends = outcomes(
        [Store("x", value=1), Fence("", fence), Load("y", register="y")],
        [Store("y", value=1), Fence("", fence), Load("x", register="x")],
    )
    assert ({"x": 0, "y": 0, STUCK: 0} in ends) == seen


@pytest.mark.parametrize(("order", "seen"), [("relaxed", True), ("release", False)])
def test_load_buffering(order: str, seen: bool) -> None:
    """LB: each loads what the other stores later, unless those stores are releases."""
    ends = outcomes(
        [Load("x", register="x"), Store("y", order, value=1)],
        [Load("y", register="y"), Store("x", order, value=1)],
    )
    assert ({"x": 1, "y": 1, STUCK: 0} in ends) == seen
