"""All that threads can do on a weakly ordered processor: an exhaustive interleaver.

A thread is a list of operations, which it may carry out in any order that C11's orders allow on a
processor whose stores all others see at once, as ARM's are (multi-copy atomic). So a store is seen
late because it is carried out late, a load sees old values because it is carried out early, also
past a wait whose outcome it guesses, and a load may be carried out after a later store.

What keeps two operations in order: that they concern the same place, that the later needs what the
earlier loads, that the later is a store and the earlier decides whether it is reached, acquire,
release, or a fence between them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Op:
    """One operation; ``order`` is C11's, ``register`` what it loads into or works with."""

    place: str
    order: str = "relaxed"
    register: str = ""
    value: int = 0


class Store(Op):
    """Write ``value``."""


class Load(Op):
    """Read into the register."""


class Await(Op):
    """Read until there is ``value`` or more."""


class Sleep(Op):
    """futex: sleep while the place holds what the register does, and that is below ``value``."""


class Wake(Op):
    """futex: wake those who sleep at the place, if the register is not 0."""


class Fence(Op):
    """Operations before and after it are in order, as far as ``order`` asks for that."""


Thread = Sequence[Op]


class _State(NamedTuple):
    """By thread: which operations are done, as bits, and the bit of a Sleep that lasts, or 0."""

    done: tuple[int, ...]
    asleep: tuple[int, ...]
    memory: tuple[tuple[str, int], ...]
    registers: tuple[tuple[str, int], ...]


STUCK = "stuck"
"""The register that counts, at the end, the threads that sleep or wait for ever."""


def outcomes(*threads: Thread) -> list[dict[str, int]]:
    """The registers at every possible end; memory is 0 at first."""
    ready = [_predecessors(thread) for thread in threads]
    fences = [_bits(isinstance(op, Fence) for op in thread) for thread in threads]
    first = _State(tuple(fences), (0,) * len(threads), (), ())
    seen, waiting, ends = {first}, [first], set()
    while waiting:
        state = waiting.pop()
        following = list(_next(threads, ready, state))
        if not following:
            every = zip(state.done, state.asleep, threads, strict=True)
            stuck = sum(
                done + 1 != 1 << len(thread) or asleep > 0 for done, asleep, thread in every
            )
            ends.add((*state.registers, (STUCK, stuck)))
        for after in following:
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return [dict(end) for end in ends]


def _next(
    threads: Sequence[Thread], ready: Sequence[Sequence[int]], state: _State
) -> Iterator[_State]:
    memory = dict(state.memory)
    for number, (thread, done) in enumerate(zip(threads, state.done, strict=True)):
        for index, op in enumerate(thread):
            bit, asleep = 1 << index, state.asleep[number]
            if done & bit or ready[number][index] & ~done or 0 < asleep < bit:
                continue
            if not (isinstance(op, Await) and memory.get(op.place, 0) < op.value):
                yield _carried_out(threads, state, number, index)


def _carried_out(threads: Sequence[Thread], state: _State, number: int, index: int) -> _State:
    op, memory, registers = threads[number][index], dict(state.memory), dict(state.registers)
    done, asleep = list(state.done), list(state.asleep)
    found, held = memory.get(op.place, 0), registers.get(op.register, 0)
    done[number] |= 1 << index
    if isinstance(op, Store):
        memory[op.place] = op.value
    elif isinstance(op, Load):
        registers[op.register] = found
    elif isinstance(op, Sleep) and held < op.value and found == held:
        asleep[number] = 1 << index
    elif isinstance(op, Wake) and held:
        asleep = [
            0 if bit and thread[bit.bit_length() - 1].place == op.place else bit
            for bit, thread in zip(asleep, threads, strict=True)
        ]
    return _State(
        tuple(done), tuple(asleep), tuple(sorted(memory.items())), tuple(sorted(registers.items()))
    )


def _bits(every: Iterable[bool]) -> int:
    return sum(1 << index for index, one in enumerate(every) if one)


def _predecessors(thread: Thread) -> list[int]:
    """For each operation, as bits, those that must be done before it."""
    return [
        _bits(
            _in_order(thread[earlier], thread[earlier + 1 : later], thread[later])
            for earlier in range(later)
        )
        for later in range(len(thread))
    ]


def _in_order(earlier: Op, between: Thread, later: Op) -> bool:
    loads, stores = not isinstance(earlier, Store), isinstance(later, Store)
    return (
        earlier.place == later.place
        or bool(later.register and later.register == earlier.register)
        or (loads and earlier.order == "acquire")
        or (stores and later.order == "release")
        or (isinstance(earlier, Await) and (stores or isinstance(later, Wake)))
        or isinstance(earlier, Sleep)
        or any(_orders(op.order, loads, stores) for op in between if isinstance(op, Fence))
    )


def _orders(fence: str, loads: bool, stores: bool) -> bool:
    """Whether a fence keeps a load, or a store, before a later store, or load."""
    return {
        "seq_cst": True,
        "acq_rel": loads or stores,
        "acquire": loads,
        "release": stores,
        "relaxed": False,
    }[fence]
