"""Untied: parameters of two names that were one before a model got other memory."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.optimizers import parameters_of
from steptime.check.observe.replaced import all_of, before
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site
from steptime.words import listed

UNTIED = "untied"
"""What is noted before the first step of names that were of one parameter, and are of several."""

_MOST = 64  # modules


@dataclass(frozen=True, eq=False)
class _Tied:
    """The names of each parameter of a module that has several, when a line gave it memory."""

    module: weakref.ref[torch.nn.Module]
    names: list[list[str]]
    by: str
    at: int


class Untied:
    """The modules of this process that have got other memory, until its first step.

    ``to_empty`` gives each name a parameter of its own, as ``load_state_dict`` does that assigns.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._tied: list[_Tied] = []
        self._over = False

    def emptying(self, module: torch.nn.Module, *_: Any, **__: Any) -> None:
        """A module gets memory in which is what there was."""
        self._see(module, "to_empty")

    def loading(
        self, module: torch.nn.Module, state_dict: Any, strict: bool = True, assign: bool = False
    ) -> None:
        """A module loads a state: into its parameters, or in their place."""
        del state_dict, strict
        if assign:
            self._see(module, "load_state_dict with assign=True")

    def _see(self, module: torch.nn.Module, by: str) -> None:
        if self._over or len(self._tied) == _MOST:
            return
        names: dict[int, list[str]] = {}
        for name, one in module.named_parameters(remove_duplicate=False):
            names.setdefault(id(one), []).append(name)
        tied = [several for several in names.values() if len(several) > 1]
        if tied:
            self._tied.append(_Tied(weakref.ref(module), tied, by, site(self._log)))

    def stepping(self, optimizer: Any, *_: Any) -> None:
        """An optimizer is about to step: the first one that does."""
        tied, self._tied, self._over = self._tied, [], True
        trained = {id(one) for one in parameters_of(optimizer) if tied and one.requires_grad}
        for one in tied:
            if (module := one.module()) is None:
                continue
            now = dict(module.named_parameters(remove_duplicate=False))
            for names in one.names:
                apart = {id(now[name]) for name in names if name in now}
                if len(apart) > 1 and apart <= trained:
                    self._log.note(
                        observed=UNTIED,
                        names=listed(names),
                        by=one.by,
                        untied_at=one.at,
                        at=site(self._log),
                    )


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    contained, untied = Contained("tied parameters"), Untied(log)
    modules = [torch.nn.Module]
    return all_of(
        [
            before(modules, "to_empty", contained.of(untied.emptying)),
            before(modules, "load_state_dict", contained.of(untied.loading)),
            register_optimizer_step_pre_hook(contained.of(untied.stepping)).remove,
        ]
    )


OBSERVER = Observer(_observe)
