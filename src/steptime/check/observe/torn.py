"""Torn: parameters that an optimizer changes while another thread saves them."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from steptime.check.observe.buffers import memory_of, tensors_in
from steptime.check.observe.contained import Contained
from steptime.check.observe.files import path_of
from steptime.check.observe.observer import Observer
from steptime.check.observe.optimizers import parameters_of
from steptime.check.observe.races import RACE
from steptime.check.observe.replaced import Function, all_of, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site


@dataclass(frozen=True, eq=False)
class _Save:
    """A ``torch.save`` under way: the memory that it reads, its thread, its line and its file."""

    memory: frozenset[int]
    thread: int
    at: int
    file: str


class Torn:
    """The saves of this process under way."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._noted: set[tuple[int, int]] = set()
        self._under_way: set[_Save] = set()

    def begins(self, given: Any, file: Any) -> _Save:
        """A thread begins to save."""
        path = path_of(file)
        one = _Save(
            memory=frozenset(
                memory_of(one) for one in tensors_in(given) if one.layout == torch.strided
            ),
            thread=threading.get_ident(),
            at=site(self._log),
            file=path.name if path else "",
        )
        self._under_way.add(one)
        return one

    def ends(self, save: _Save) -> None:
        """It is saved, or failed."""
        self._under_way.discard(save)

    def stepping(self, optimizer: Any, *_: Any) -> None:
        """An optimizer is about to change its parameters."""
        others = [one for one in [*self._under_way] if one.thread != threading.get_ident()]
        if not others:
            return
        at = site(self._log)
        changed = set(map(memory_of, parameters_of(optimizer)))
        for one in others:
            if (one.at, at) not in self._noted and not changed.isdisjoint(one.memory):
                self._noted.add((one.at, at))
                self._log.note(
                    observed=RACE,
                    fault="torn",
                    call="torch.save",
                    call_at=one.at,
                    at=at,
                    by=one.file,
                )


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    torn, contained = Torn(log), Contained("saves in threads")
    begins, ends = contained.of(torn.begins), contained.of(torn.ends)

    def saving(save: Function) -> Function:
        def saves(obj: Any, f: Any, *arguments: Any, **options: Any) -> Any:
            begun = begins(obj, f)
            try:
                return save(obj, f, *arguments, **options)
            finally:
                if begun is not None:
                    ends(begun)

        return saves

    hook = register_optimizer_step_pre_hook(contained.of(torn.stepping))
    return all_of([replaced([torch], "save", saving), hook.remove])


OBSERVER = Observer(_observe)
