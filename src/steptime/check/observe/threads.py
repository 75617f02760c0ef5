"""Threads: with how many a rank computes, and on which cores."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.optimizers import parameters_of
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

THREADS = "threads"
"""What is noted of a rank that trains on processors, at its second step."""


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    steps = 0

    def stepping(optimizer: Any, *_: Any) -> None:
        nonlocal steps
        steps += 1
        parameters = parameters_of(optimizer)
        if steps == 2 and parameters and parameters[0].device.type == "cpu":
            log.note(
                observed=THREADS,
                threads=torch.get_num_threads(),
                cores=sorted(os.sched_getaffinity(0)),
                of_host=_cores_of_host(),
                at=site(log),
            )

    hook = register_optimizer_step_pre_hook(Contained("threads").of(stepping))
    return hook.remove


def _cores_of_host() -> int:
    """How many cores the first process here may use, whatever this one is bound to."""
    with suppress(OSError):
        return len(os.sched_getaffinity(1))
    return 0


OBSERVER = Observer(_observe)
