"""Skips: steps that a GradScaler leaves out as gradients of this rank have overflown."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import Function, all_of, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

SKIPS = "skips"
"""What is noted in the end of each GradScaler: how often it was to step, and when it did not."""

_MOST = 1000


class Skips:
    """The GradScalers of this process, in the order in which they stepped first."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._all: list[_Scaler] = []
        self._of: weakref.WeakKeyDictionary[Any, _Scaler] = weakref.WeakKeyDictionary()
        self._steps = 0

    def stepping(self, *_: Any) -> None:
        """An optimizer is about to step."""
        self._steps += 1

    def before(self, scaler: Any) -> int:
        """A GradScaler is about to let an optimizer step; how many steps there were."""
        if scaler not in self._of:
            self._of[scaler] = one = _Scaler()
            self._all.append(one)
        self._of[scaler].calls += 1
        return self._steps

    def after(self, scaler: Any, steps: int) -> None:
        """It has, if there are more than that many steps now."""
        one = self._of[scaler]
        if self._steps == steps and len(one.skipped) < _MOST:
            one.skipped.append(one.calls)
        one.at = site(self._log)

    def end(self) -> None:
        """Note all of them."""
        for number, one in enumerate(self._all):
            self._log.note(
                observed=SKIPS, number=number, calls=one.calls, skipped=one.skipped, at=one.at
            )


class _Scaler:
    """How often one was to step, at which of these times it did not, and where the last was."""

    def __init__(self) -> None:
        self.calls = self.at = 0
        self.skipped: list[int] = []


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    skips, contained = Skips(log), Contained("skips")
    before, after = contained.of(skips.before), contained.of(skips.after)

    def stepping(step: Function) -> Function:
        def steps(scaler: Any, *arguments: Any, **options: Any) -> Any:
            if not scaler.is_enabled():
                return step(scaler, *arguments, **options)
            made = before(scaler)
            result = step(scaler, *arguments, **options)
            if made is not None:
                after(scaler, made)
            return result

        return steps

    return all_of(
        [
            contained.of(skips.end),
            replaced([torch.amp.GradScaler], "step", stepping),
            register_optimizer_step_pre_hook(contained.of(skips.stepping)).remove,
        ]
    )


OBSERVER = Observer(_observe)
