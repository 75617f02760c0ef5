"""Calls that were measured: alone they take what was measured, together they share the links."""

from dataclasses import replace

import numpy as np
import pytest

from simulate.networks import star
from steptime.cluster import MESSAGE, CallTimes, Cluster
from steptime.errors import UsageError
from steptime.program import Collective, Op, Program, Recv, Send, Wait
from steptime.simulate.step import Simulation, simulate

SIZES = (4096.0, float(1 << 20), float(64 << 20))
SECONDS = (5e-3, 8e-3, 300e-3)


def measured(kind: str = "all_reduce", algorithm: str = "ring") -> Cluster:
    times = CallTimes(ranks=4, algorithm=algorithm, sizes=SIZES, seconds=SECONDS)
    return replace(star(4, bandwidth=2e9), calls={kind: (times,)})


def program(nbytes: int, *, calls: int = 1) -> Program:
    """Collectives of four ranks that all begin at once."""
    ops: list[Op] = [
        Collective(
            name="sum", kind="all_reduce", group=("data",), nbytes=nbytes, stream=f"s{n}",
            after=(-1,),
        )
        for n in range(calls)
    ]  # fmt: skip
    ops.append(Wait(name="sums", after=tuple(range(calls))))
    return Program(
        name="sums", axes={"data": 4}, lists=(tuple(ops),), class_of=np.zeros(4, np.int32)
    )


def shift(nbytes: int) -> Program:
    """From each rank to the next, all at once."""
    ops = (
        Send(name="out", axis="data", by=1, nbytes=nbytes, stream="out", after=(-1,)),
        Recv(name="in", axis="data", by=-1, nbytes=nbytes, stream="in", after=(-1,)),
        Wait(name="both", after=(0, 1)),
    )
    return Program(name="shift", axes={"data": 4}, lists=(ops,), class_of=np.zeros(4, np.int32))


def step_s(one: Simulation) -> float:
    return float(one.step_s[-1])


@pytest.mark.parametrize("fidelity", ["message", "collective"])
@pytest.mark.parametrize(
    ("nbytes", "expected"),
    [(4096, 5e-3), (1 << 20, 8e-3), (64 << 20, 300e-3), (128 << 20, 300e-3 + 64 * 292e-3 / 63)],
)
def test_a_call_alone_takes_what_was_measured(nbytes: int, expected: float, fidelity) -> None:
    one = simulate(program(nbytes), measured(), fidelity=fidelity)
    assert step_s(one) == pytest.approx(expected, rel=1e-3)
    assert one.bytes_sent.tolist() == pytest.approx([1.5 * nbytes] * 4)  # those that it sends


def test_two_at_once_share_the_links() -> None:
    alone = step_s(simulate(program(1 << 20), measured()))
    both = step_s(simulate(program(1 << 20, calls=2), measured()))
    assert both == pytest.approx(2 * alone, rel=0.02)


def test_messages_all_at_once_take_what_was_measured() -> None:
    one = simulate(shift(1 << 20), measured(MESSAGE, ""))
    assert step_s(one) == pytest.approx(8e-3, rel=1e-4)
    assert one.bytes_sent.tolist() == [1 << 20] * 4


def test_an_algorithm_that_was_asked_for_is_simulated_as_it_is() -> None:
    asked = simulate(program(1 << 20), measured(), algorithms={"all_reduce": "ring"})
    plain = simulate(program(1 << 20), star(4, bandwidth=2e9), algorithms={"all_reduce": "ring"})
    assert step_s(asked) == step_s(plain) < 2e-3


def test_an_algorithm_that_is_not_shipped_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no all_reduce 'magic': choose one of"):
        simulate(program(4096), measured(algorithm="magic"))


@pytest.mark.parametrize("fidelity", ["message", "collective"])
def test_where_bytes_take_no_time_what_was_measured_counts_no_more(fidelity) -> None:
    """As on the ideal network: no number of bytes would take as long."""
    ideal = replace(star(4, bandwidth=np.inf, latency=1e-6), calls=measured().calls)
    one = simulate(program(1 << 20), ideal, fidelity=fidelity)
    assert step_s(one) == pytest.approx(6 * 2e-6)
