"""Threads: with how many a rank computes, and on which cores."""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
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
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        if steps == 2 and parameters and parameters[0].device.type == "cpu":
            log.note(
                observed=THREADS,
                threads=torch.get_num_threads(),
                cores=sorted(os.sched_getaffinity(0)),
                at=site(log),
            )

    hook = register_optimizer_step_pre_hook(Contained("threads").of(stepping))
    return hook.remove


OBSERVER = Observer(_observe)
