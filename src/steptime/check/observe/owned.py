"""Owned: which parameters of a model this rank's optimizers have, and which of all have changed."""

import weakref
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from steptime.check.observe.contents import readable, samples_of
from steptime.check.observe.idle import Idle
from steptime.check.observe.models import Models
from steptime.check.observe.optimizers import parameters_of
from steptime.check.observe.reduced import Reduced
from steptime.check.observe.tensors import is_sharded
from steptime.record.events import Log
from steptime.record.places import site

OWNED = "owned"
"""What is noted of a model's parameters after some steps, where optimizers have a part of them."""

_STEPS = 3
_MOST, _MOST_STEPS = 2000, 32  # parameters that are looked at, and steps until the model runs again


class Owned:
    """The first model that this process trains, if neither DDP nor ``fully_shard`` has it."""

    def __init__(self, log: Log, models: Models, idle: Idle, reduced: Reduced) -> None:
        self._log = log
        self._models = models
        self._idle = idle
        self._reduced = reduced
        self._model: weakref.ref[torch.nn.Module] | None = None
        self._begun: list[list[float]] = []
        self._trained: set[int] = set()
        self._elsewhere: dict[int, int] = {}
        self._steps = self._at = 0
        self._over = False

    def given(self, module: torch.nn.Module, taken: Sequence[Any]) -> None:
        """A pass begins: all that is sent after the steps before it has come."""
        del taken
        if self._over or not (module.training and dist.is_initialized()):
            return
        if self._model is None:
            self._model = weakref.ref(module)
            parameters = self._parameters(module)
            plain = all(readable(one) and not is_sharded(one) for _, one in parameters)
            self._over = not plain or len(parameters) > _MOST
            self._begun = [] if self._over else [samples_of(one) for _, one in parameters]
        elif self._steps >= _STEPS and self._model() is module:
            self._over = True
            self._tell(module)

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped, by gradients that may be of all ranks."""
        if self._over or self._model is None:
            return
        self._steps += 1
        self._over = self._steps == _MOST_STEPS
        self._at = site(self._log)
        for one in parameters_of(optimizer):
            if one.grad is None:
                continue
            root = self._reduced.root_of(one.grad)
            if root not in (-1, dist.get_rank()):
                self._elsewhere[id(one)] = root
            if id(one) not in self._trained and any(samples_of(one.grad)):
                self._trained.add(id(one))

    def _tell(self, module: torch.nn.Module) -> None:
        parameters = self._parameters(module)
        owned = self._idle.parameters()
        in_part = any(id(one) not in owned for _, one in parameters)
        if not in_part or len(parameters) != len(self._begun):
            return
        self._log.note(
            observed=OWNED,
            model=type(module).__name__,
            names=[name for name, _ in parameters],
            owned=[id(one) in owned for _, one in parameters],
            trained=[id(one) in self._trained for _, one in parameters],
            elsewhere=[self._elsewhere.get(id(one), -1) for _, one in parameters],
            # What has no elements left is fetched before it is used again.
            written=[
                one.numel() == 0 or samples_of(one) != begun
                for (_, one), begun in zip(parameters, self._begun, strict=True)
            ],
            summed=self._reduced.sums,
            at=self._at,
        )

    def _parameters(self, module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
        of_models = self._models.ids()
        return [
            (name, one)
            for name, one in module.named_parameters()
            if one.requires_grad and id(one) not in of_models
        ]
