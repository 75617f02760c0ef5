"""Disturbing: the faults of a plan, begun and ended when they are due."""

from steptime.emulate.faults import Fault
from steptime.emulate.plan import Plan
from steptime.emulate.told import Told
from steptime.emulate.wires import Wires


class Disturbing:
    """The faults of a plan, each told when it happens."""

    def __init__(self, plan: Plan, wires: Wires, told: Told) -> None:
        self._wires = wires
        self._hosts = {host.name: host for host in plan.hosts}
        self.told = told
        starts = [(fault.at_s, True, fault) for fault in plan.faults]
        ends = [
            (fault.at_s + fault.lasts_s, False, fault)
            for fault in plan.faults
            if fault.lasts_s is not None
        ]
        self._left = sorted(starts + ends, key=lambda one: one[0])

    def due(self, now: float) -> float | None:
        """Do what is due ``now`` seconds after the start; when there is more to do, if at all."""
        while self._left and self._left[0][0] <= now:
            _, begins, fault = self._left.pop(0)
            self._do(fault, begins=begins)
        return self._left[0][0] if self._left else None

    def _do(self, fault: Fault, *, begins: bool) -> None:
        host = self._hosts[fault.host]
        if begins:
            self._wires.begin(fault, host)
        else:
            self._wires.end(fault, host)
        self.told.add(fault, begins=begins)
