"""Fully sharded parameters, gathered just before they are needed (ZeRO-3, PyTorch's FSDP)."""

from collections.abc import Iterable
from dataclasses import replace

from steptime.program import Collective, Op
from steptime.program.program import After
from steptime.workloads.listing import add, follow_step_before


def needed(unit: int, last: int, *, forward: bool, tied: bool) -> set[int]:
    """The units whose parameters are gathered before one is computed: usually that unit alone.

    With a ``tied`` table, the ``last`` unit of forward, the first of backward, gathers the first
    unit's parameters too, and they are kept until that unit's turn.
    """
    if forward or not tied or unit not in (0, last):
        return {unit}
    return {0, last} if unit == last else set()


class Gathers:
    """Appends to ``ops`` the gathers of parameters, and the sums of their gradients.

    The parameters of a unit are gathered while the unit before it is computed, and no earlier: two
    units are held at a time. Both kinds of calls use one stream, where the gather of a unit comes
    before the sums of the unit before it, which are ready later.
    """

    def __init__(self, ops: list[Op]) -> None:
        self._ops = ops
        self._ends: list[int] = []  # where each unit so far has been computed
        self._unbound: list[int] = []  # gathers that wait for nothing of this step
        self._ready: list[Collective] = []
        self._summed: After = ()

    def before(self, gathers: Iterable[Collective]) -> After:
        """Gather the next unit's parameters; returns the ops that its computing waits for."""
        begin = tuple(self._ends[-2:-1])
        places: After = ()
        for gather in gathers:
            places += add(self._ops, replace(gather, after=begin))
        if not begin:
            self._unbound += places
        self._sum()
        return places

    def computed(self, place: int, sums: Iterable[Collective]) -> None:
        """Note that a unit was computed at ``place``, and the gradients of ``sums`` are ready."""
        self._ends.append(place)
        self._ready += (replace(one, after=(place,)) for one in sums)

    def finish(self) -> After:
        """Sum the remaining gradients; returns the place of the last sum."""
        self._sum()
        return self._summed

    def follow(self, update: int) -> None:
        """Let the first gathers wait for the update, at ``update``, of the step before."""
        for place in self._unbound:
            follow_step_before(self._ops, place, (update,))

    def _sum(self) -> None:
        for one in self._ready:
            self._summed = add(self._ops, one)
        self._ready.clear()
