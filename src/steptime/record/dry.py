"""A dry run: one process records what a rank of a large job would do, and communicates nothing.

Every group is a DryGroup, which has its ranks in name alone. Torch has such a group, ``fake``, but
its futures hold no tensors, so that the reducer of DDP cannot use it.
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from steptime.record.operations import METHODS, OPERATIONS
from steptime.world import compat
from steptime.world.python_group import PythonGroup

NAME = "dry"


def install() -> None:
    """Let this process be one rank, by RANK and WORLD_SIZE, of a job that is not there."""
    dist.Backend.register_backend(NAME, _open, extended_api=True, devices=["cpu", "cuda"])
    _replace(dist.init_process_group, _initialised)
    _replace(dist.new_group, _new_group)


class DryGroup(PythonGroup):
    """A group whose calls end at once and move nothing.

    A gather gives the rank's own tensors as those of all, so that objects can be read from it; all
    other tensors stay as they are.
    """

    def _get_backend(self, device: torch.device) -> Any:
        del device
        return self

    def shutdown(self) -> None:
        """Nothing is held."""


class _Done(compat.Work):
    """The Work of a call that moved nothing."""

    def __init__(self, results: list[Tensor]) -> None:
        super().__init__()
        self._results = results

    def wait(self, timeout: Any = None) -> bool:
        """Return at once."""
        del timeout
        return True

    def is_completed(self) -> bool:
        """Always True."""
        return True

    def result(self) -> list[Tensor]:
        """The tensors that the call would have filled."""
        return self._results

    def get_future(self) -> Any:
        """A completed future of these tensors."""
        future: Any = torch.futures.Future()
        future.set_result(self._results)
        return future


def _method(kind: str) -> Callable[..., _Done]:
    @compat.left_alone
    def call(group: DryGroup, *arguments: Any, **options: Any) -> _Done:
        del group, options
        filled = _tensors(arguments[0]) if arguments else []
        if kind in ("all_gather", "gather") and len(arguments) > 1:
            _repeat(_tensors(arguments[1]), filled)
        return _Done(filled)

    return call


for _name, _number in METHODS.items():
    setattr(DryGroup, _name, _method(OPERATIONS[_number].kind))


def _tensors(nested: Any) -> list[Tensor]:
    """The tensors in lists of lists."""
    if isinstance(nested, Tensor):
        return [nested]
    if not isinstance(nested, list | tuple):
        return []
    return [tensor for one in nested for tensor in _tensors(one)]


def _repeat(given: Sequence[Tensor], filled: Sequence[Tensor]) -> None:
    """Fill tensors with one's own, as often as they hold them."""
    with torch.no_grad():
        for at, tensor in enumerate(filled):
            own = given[at % len(given)]
            times = tensor.numel() // max(1, own.numel())
            if own.numel() and times * own.numel() == tensor.numel():
                tensor.view(times, -1).copy_(own.reshape(1, -1).expand(times, -1))


def _open(options: compat.GroupOptions, own_options: object) -> DryGroup:
    del own_options
    return DryGroup(NAME, options.group_rank, options.group_size, options.store)


def _initialised(original: Callable[..., Any], *given: Any, **options: Any) -> Any:
    del given, options  # how the ranks would have met
    place = {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
    return original(NAME, store=compat.HashStore(), **place)


def _new_group(original: Callable[..., Any], *given: Any, **options: Any) -> Any:
    asked = signature(original).bind(*given, **options).arguments
    return original(**{**asked, "backend": NAME, "pg_options": None, "device_id": None})


def _replace(original: Callable[..., Any], by: Callable[..., Any]) -> None:
    """Put a function in the place of another in every module of torch that knows it."""

    @wraps(original)
    def replacement(*given: Any, **options: Any) -> Any:
        return by(original, *given, **options)

    for name, module in list(sys.modules.items()):
        if name.startswith("torch.distributed") and (
            vars(module).get(original.__name__) is original
        ):
            setattr(module, original.__name__, replacement)
