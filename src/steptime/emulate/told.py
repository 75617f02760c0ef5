"""Told: what processes on an emulated cluster can read of it while it lasts."""

import json
import os
import time
from collections.abc import Mapping

from steptime.emulate.faults import Fault
from steptime.emulate.plan import Plan


def kept_file(name: str, text: str) -> str:
    """The path of a file in memory that lasts as long as this process, and is left nowhere."""
    file = os.memfd_create(name)
    os.write(file, text.encode())
    return f"/proc/{os.getpid()}/fd/{file}"


class Told:
    """The file that ``steptime.emulated`` reads, renewed with every fault."""

    def __init__(self, plan: Plan, holders: Mapping[str, int]) -> None:
        self._plan = plan
        self._holders = dict(holders)
        self.faults: list[dict[str, object]] = []
        self.path = kept_file("emulated", "")
        self._write()

    def add(self, fault: Fault, *, begins: bool) -> None:
        """A fault has begun, or ended."""
        now_s = time.perf_counter() / self._plan.dilation  # as ranks' clocks have it
        what = {"what": str(fault), "host": fault.host}
        if begins:
            self.faults.append({**what, "at_s": now_s, "until_s": None})
        else:
            begun = next(one for one in self.faults if one | what == one and not one["until_s"])
            begun["until_s"] = now_s
        self._write()

    def _write(self) -> None:
        text = json.dumps(
            {
                "cluster": self._plan.cluster,
                "holders": self._holders,
                "time_dilation": self._plan.dilation,
                "faults": self.faults,
            }
        )
        with open(self.path, "w") as file:  # noqa: PTH123  (it has no place in a folder)
            file.write(text)
