"""What a script does between its calls: backward, optimizer, data loading, and where a step ends.

PyTorch has one place that each of them passes, whatever the script looks like. Forward has none
that costs nothing: it is what lies before a backward and is none of the others.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data import dataloader

from steptime.record.closures import Given, once_made
from steptime.record.device import DeviceMarks
from steptime.record.events import WITHIN_STEP, Kind, Log, Time
from steptime.record.places import site

_clock, _ran = time.perf_counter_ns, time.thread_time_ns


@dataclass(frozen=True)
class Parts:
    """Parts of the step, written into ``log``, with where the GPU's stream was in ``marks``."""

    log: Log
    marks: DeviceMarks

    def begin(self) -> "Begun":
        """A part begins now."""
        mark = self.marks.take()
        return Begun(_clock(), _ran(), mark)

    def end(self, begun: "Begun", kind: Kind, *, peer: int = -1, site: int = 0) -> None:
        """And ends now."""
        ran = max(0, _ran() - begun.ran)
        number = self.log.rows.write(
            kind, begun.when, 0, _clock(), peer=peer, site=site, nbytes=ran
        )
        self.marks.keep(number, Time.ISSUED, begun.mark)
        self.marks.keep(number, Time.ENDED, self.marks.take())


class Begun(NamedTuple):
    """When a part of the step began, by the script, by its thread's running, and by the GPU."""

    when: int
    ran: int
    mark: Any


def install(parts: Parts, step_ended: Callable[[], None]) -> Callable[[], None]:
    """Write down these parts of every step from now on; the result ends that.

    ``step_ended`` is called whenever the first optimizer has stepped.
    """
    begun: dict[int, Begun] = {}

    def before(optimizer: Any, arguments: Any, options: Any) -> Given | None:
        def made() -> None:
            begun[id(optimizer)] = parts.begin()

        def asked() -> None:
            if begin := begun.pop(id(optimizer), None):
                parts.end(begin, Kind.OPTIMIZER, peer=WITHIN_STEP)

        return once_made(arguments, options, made, asked)

    def after(optimizer: Any, *_: Any) -> None:
        number = numbers.setdefault(id(optimizer), len(numbers))
        begin = begun.pop(id(optimizer), None) or parts.begin()
        parts.end(begin, Kind.OPTIMIZER, peer=number)
        if number == 0:
            step_ended()

    numbers: dict[int, int] = {}
    handles = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
    loader: Any = dataloader._BaseDataLoaderIter
    backward, following = torch.autograd.backward, loader.__next__
    torch.autograd.backward = _timed(parts, Kind.BACKWARD, backward)
    loader.__next__ = _timed(parts, Kind.DATA, following)

    def remove() -> None:
        torch.autograd.backward = backward
        loader.__next__ = following
        for handle in handles:
            handle.remove()

    return remove


def _timed(parts: Parts, kind: Kind, function: Callable[..., Any]) -> Callable[..., Any]:
    def timed(*arguments: Any, **options: Any) -> Any:
        begin = parts.begin()
        try:
            return function(*arguments, **options)
        finally:
            parts.end(begin, kind, site=site(parts.log))

    return timed
