"""Scaled again: gradients that a pipeline's schedule divides anew in each of its calls."""

import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import after, all_of
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.imports import once_imported
from steptime.record.places import site

SCALED_AGAIN = "scaled again"
"""What is noted once of a stage whose schedule has divided gradients that it had divided before."""

_STAGE = "torch.distributed.pipelining.stage"


@dataclass(frozen=True, eq=False)
class _Scaled:
    """A gradient of a stage that was divided, in the step by optimizers of this number."""

    gradient: weakref.ref[torch.Tensor]
    step: int


class ScaledAgain:
    """The stages of this process, by what of them a schedule divided last.

    A schedule divides whatever gradients there are at its end, what earlier calls left among them
    (``_PipelineStageBase.scale_grads``).
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._last: weakref.WeakKeyDictionary[Any, _Scaled] = weakref.WeakKeyDictionary()
        self._steps = 0
        self._over = False

    def scaled(self, _: Any, stage: Any, grad_scale_factor: float) -> None:
        """The gradients of a stage were divided."""
        of = [one.grad for one in stage.submod.parameters() if one.grad is not None]
        if self._over or grad_scale_factor == 1 or not of:
            return
        last = self._last.get(stage)
        self._last[stage] = _Scaled(weakref.ref(of[0]), self._steps)
        if last is not None and last.step == self._steps and last.gradient() is of[0]:
            self._over = True
            self._log.note(observed=SCALED_AGAIN, factor=grad_scale_factor, at=site(self._log))

    def stepping(self, *_: Any) -> None:
        """An optimizer steps by them."""
        self._steps += 1


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    contained, scaled = Contained("scaled gradients"), ScaledAgain(log)

    def watch() -> Callable[[], None]:
        stages = [sys.modules[_STAGE]._PipelineStageBase]
        return after(stages, "scale_grads", contained.of(scaled.scaled))

    return all_of(
        [
            once_imported(_STAGE, watch),
            register_optimizer_step_pre_hook(contained.of(scaled.stepping)).remove,
        ]
    )


OBSERVER = Observer(_observe)
