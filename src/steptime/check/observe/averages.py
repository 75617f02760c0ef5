"""Averages: copies of a model under DDP, as of averaged parameters, that ranks run beside it."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_post_hook

from steptime.check.observe.contained import Contained
from steptime.check.observe.contents import hash_of, readable
from steptime.check.observe.forwards import watched_forwards
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import all_of
from steptime.check.observe.tensors import is_sharded
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

AVERAGE = "average"
"""What is noted of a copy of a trained model as it is run without gradients."""

_MOST = 3  # of each copy


class _Copy:
    """A module like a trained one: ``ranks`` have a replica of that, ``number`` tells it apart."""

    def __init__(self, number: int, ranks: Sequence[int]) -> None:
        self.number, self.ranks = number, ranks
        self.noted, self.steps = 0, -1


class Averages:
    """The models under DDP in this process, by their classes, and the copies of them."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._steps = 0
        self._ranks: weakref.WeakKeyDictionary[torch.nn.Module, Sequence[int]] = (
            weakref.WeakKeyDictionary()
        )
        self._classes: set[type] = set()
        self._copies: weakref.WeakKeyDictionary[torch.nn.Module, _Copy | None] = (
            weakref.WeakKeyDictionary()
        )

    def trained(self, module: torch.nn.Module, ranks: Sequence[int], *_: Any) -> None:
        """A model begins a forward under DDP."""
        if isinstance(module, DistributedDataParallel) and module.module not in self._ranks:
            self._ranks[module.module] = ranks if len(ranks) > 1 else ()
            self._classes.add(type(module.module))

    def stepped(self, *_: Any) -> None:
        """An optimizer has made a step."""
        self._steps += 1

    def runs(self, module: torch.nn.Module, _: Any) -> None:
        """A module begins a forward; of a copy of a model its parameters are noted."""
        if type(module) not in self._classes or torch.is_grad_enabled():
            return
        if torch.compiler.is_compiling() or module in self._ranks:
            return
        if module not in self._copies:
            of = next((one for one in self._ranks if _are_alike(one, module)), None)
            ranks = self._ranks[of] if of is not None else ()
            self._copies[module] = _Copy(len(self._copies), ranks) if ranks else None
        copy = self._copies[module]
        if copy is None or copy.noted == _MOST or copy.steps == self._steps:
            return
        parameters = list(module.parameters())
        if all(map(readable, parameters)):
            copy.noted, copy.steps = copy.noted + 1, self._steps
            self._log.note(
                observed=AVERAGE,
                copy=copy.number,
                name=type(module).__name__,
                ranks=list(copy.ranks),
                steps=self._steps,
                hash=hash_of(parameters),
                at=site(self._log),
            )


def _are_alike(model: torch.nn.Module, module: torch.nn.Module) -> bool:
    """Whether two modules have the same parameters but for what these hold, and share none."""
    own, others = (dict(one.named_parameters()) for one in (model, module))
    return (
        type(model) is type(module)
        and own.keys() == others.keys() != set()
        and all(one.shape == others[name].shape for name, one in own.items())
        and all(one is not others[name] for name, one in own.items())
        and not any(map(is_sharded, others.values()))
    )


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    averages, contained = Averages(log), Contained("copies of models")
    before = torch.nn.modules.module.register_module_forward_pre_hook(contained.of(averages.runs))
    stepped = register_optimizer_step_post_hook(contained.of(averages.stepped))
    return all_of([watched_forwards(contained, averages.trained), before.remove, stepped.remove])


OBSERVER = Observer(_observe)
