"""Disturbing: the faults of a plan, begun and ended when they are due."""

import time

from steptime.emulate.faults import Fault
from steptime.emulate.plan import Host, Plan
from steptime.emulate.wires import Wires


class Disturbing:
    """The faults of a plan; ``told``: what happened when, by the clock that ranks have too."""

    def __init__(self, plan: Plan, wires: Wires) -> None:
        self._wires = wires
        self._hosts = {host.name: host for host in plan.hosts}
        self.told: list[dict[str, object]] = []
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
            self._do(fault, self._hosts[fault.host], begins)
        return self._left[0][0] if self._left else None

    def _do(self, fault: Fault, host: Host, begins: bool) -> None:
        (self._wires.begin if begins else self._wires.end)(fault, host)
        what = str(fault) if begins else f"{fault}, no more"
        self.told.append({"what": what, "host": fault.host, "clock_s": time.perf_counter()})
