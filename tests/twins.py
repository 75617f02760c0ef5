"""The calls of a step, as its Program has them and as its live twin makes them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from steptime.program import Collective
from steptime.workloads.experts import is_routed
from steptime.workloads.hybrid import Hybrid


class Call(NamedTuple):
    """A collective among the ranks along some axes, and the bytes of its whole vector."""

    kind: str
    axes: str
    nbytes: int


class Noted(list[Any]):
    """What one communicator calls, which notes it among the calls of all."""

    def __init__(self, axes: str, calls: list[Call]) -> None:
        super().__init__()
        self._axes = axes
        self._calls = calls

    def append(self, called: Any) -> None:
        self._calls.append(Call(called.kind, self._axes, called.nbytes))


def layer_calls(hybrid: Hybrid, rank: int) -> list[Collective]:
    """The calls of a rank within forward and backward of its micro-batches, in order."""
    ops = hybrid.program.lists[hybrid.program.class_of[rank]]
    return [
        op
        for op in ops
        if isinstance(op, Collective) and op.name.split()[0] in ("forward", "backward")
    ]


def check_twins(hybrid: Hybrid, live: Sequence[Sequence[Call]]) -> None:
    """Hold what all ranks called against the Program, call for call.

    How many bytes of a routed call are whose, the routing decides. All ranks' together are the
    Program's, and more where shares are filled up to be equal.
    """
    for rank, calls in enumerate(live):
        expected = layer_calls(hybrid, rank)
        assert [call[:2] for call in calls] == [(op.kind, "+".join(op.group)) for op in expected]
        exact = [n for n, op in enumerate(expected) if not is_routed(op)]
        assert [calls[n].nbytes for n in exact] == [expected[n].nbytes for n in exact]
    if hybrid.mesh.pipeline == 1:  # every rank has the same calls: the n-th of all belong together
        for number, op in enumerate(layer_calls(hybrid, 0)):
            total = sum(calls[number].nbytes for calls in live)
            least = op.nbytes * len(live)
            assert total == least or (total > least and op.kind != "all_to_all"), op
