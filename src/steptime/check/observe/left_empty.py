"""Left empty: parameters that to_empty() has given memory, in which nobody writes before a step."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.optim.optimizer import register_optimizer_step_pre_hook

from steptime.check.observe.contained import Contained
from steptime.check.observe.contents import hash_of, readable
from steptime.check.observe.observer import Observer
from steptime.check.observe.optimizers import parameters_of
from steptime.check.observe.replaced import after, all_of
from steptime.check.observe.tensors import is_constant, is_sharded
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

LEFT_EMPTY = "left empty"
"""What is noted before the first step of parameters that hold what their memory held."""


@dataclass(frozen=True, eq=False)
class _Emptied:
    """A parameter by its name, and a hash of the memory that it was given at a line."""

    parameter: weakref.ref[Any]
    name: str
    content: int
    at: int


class LeftEmpty:
    """What this process has emptied, until its first step."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._emptied: list[_Emptied] = []
        self._over = False

    def emptied(self, _: Any, module: torch.nn.Module, *__: Any, **___: Any) -> None:
        """A module has got memory in which is what there was."""
        if self._over:
            return
        at = site(self._log)
        self._emptied += [
            _Emptied(weakref.ref(one), name, hash_of([_local(one)]), at)
            for name, one in module.named_parameters()
            if not is_lazy(one) and readable(_local(one))
        ]

    def stepping(self, optimizer: Any, *_: Any) -> None:
        """An optimizer is about to step, by gradients of what the parameters hold.

        Zeros may have been written where there were zeros: what ``may`` be so is told apart, unless
        they are in all, for then nobody wrote any.
        """
        emptied, self._emptied, self._over = self._emptied, [], True
        trained = {id(one): one for one in parameters_of(optimizer) if one.grad is not None}
        of = [one for one in emptied if id(one.parameter()) in trained]
        left = [
            (one, is_constant(_local(one.parameter())))
            for one in of
            if hash_of([_local(one.parameter())]) == one.content
        ]
        names = [one.name for one, zeros in left if not zeros or len(left) == len(of)]
        if left:
            self._log.note(
                observed=LEFT_EMPTY,
                names=names,
                may=[one.name for one, _ in left if one.name not in names],
                of=len(of),
                emptied_at=of[0].at,
                at=site(self._log),
            )


def _local(parameter: Any) -> torch.Tensor:
    """A parameter, or the rank's part of it, as it lies in memory."""
    tensor: torch.Tensor = parameter.detach()
    return tensor.to_local() if is_sharded(parameter) else tensor  # type: ignore[attr-defined]


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    contained = Contained("emptied parameters")
    left_empty = LeftEmpty(log)
    return all_of(
        [
            after([torch.nn.Module], "to_empty", contained.of(left_empty.emptied)),
            register_optimizer_step_pre_hook(contained.of(left_empty.stepping)).remove,
        ]
    )


OBSERVER = Observer(_observe)
