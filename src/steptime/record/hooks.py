"""What a script does between its calls: backward, optimizer, data loading, and where a step ends.

PyTorch has one place that each of them passes, whatever the script looks like. Forward has none
that costs nothing: it is what lies before a backward and is none of the others.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data import dataloader

from steptime.record.closures import Given, once_made
from steptime.record.events import WITHIN_STEP, Kind, Log
from steptime.record.places import site

_clock = time.perf_counter_ns


def install(log: Log, step_ended: Callable[[], None]) -> Callable[[], None]:
    """Write down these parts of every step from now on; the result ends that.

    ``step_ended`` is called whenever the first optimizer has stepped.
    """
    begun: dict[int, int] = {}

    def before(optimizer: Any, arguments: Any, options: Any) -> Given | None:
        def made() -> None:
            begun[id(optimizer)] = _clock()

        def asked() -> None:
            if begin := begun.pop(id(optimizer), 0):
                log.rows.write(Kind.OPTIMIZER, begin, 0, _clock(), peer=WITHIN_STEP)

        return once_made(arguments, options, made, asked)

    def after(optimizer: Any, *_: Any) -> None:
        number = numbers.setdefault(id(optimizer), len(numbers))
        log.rows.write(Kind.OPTIMIZER, begun.pop(id(optimizer), _clock()), 0, _clock(), peer=number)
        if number == 0:
            step_ended()

    numbers: dict[int, int] = {}
    handles = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
    loader: Any = dataloader._BaseDataLoaderIter
    backward, following = torch.autograd.backward, loader.__next__
    torch.autograd.backward = _timed(log, Kind.BACKWARD, backward)
    loader.__next__ = _timed(log, Kind.DATA, following)

    def remove() -> None:
        torch.autograd.backward = backward
        loader.__next__ = following
        for handle in handles:
            handle.remove()

    return remove


def _timed(log: Log, kind: Kind, function: Callable[..., Any]) -> Callable[..., Any]:
    def timed(*arguments: Any, **options: Any) -> Any:
        begin = _clock()
        try:
            return function(*arguments, **options)
        finally:
            log.rows.write(kind, begin, 0, _clock(), site=site(log))

    return timed
