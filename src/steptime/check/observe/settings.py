"""Settings: by which numbers the modules of a model compute, and its losses, on each rank."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
import torch.distributed as dist

from steptime.check.observe.contents import readable, samples_of
from steptime.record.events import Log
from steptime.record.places import site

SETTINGS = "settings"
"""What is noted of a model at its first training forward, and of each loss at its own."""

_MOST = 2000  # modules of a model
_MOST_LOSSES = 8


class Settings:
    """The models of this process that were trained, and the losses that were computed."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._models: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._losses: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._ranks: Sequence[int] | None = None
        self._noted = [0, 0]

    def knows(self, model: torch.nn.Module) -> bool:
        """Whether a model has begun a training forward before."""
        return model in self._models

    def begun(self, module: torch.nn.Module, ranks: Callable[[], Sequence[int]]) -> None:
        """A model that some ``ranks`` have replicas or shards of begins to be trained.

        None are told of one whose gradients a script may reduce itself.
        """
        self._models.add(module)
        if len(among := ranks()) == 1 or not dist.is_initialized() or dist.get_world_size() < 2:
            return
        self._ranks = among
        self._note("model", self._noted[0], dict(_of_model(module)))
        self._noted[0] += 1

    def of_loss(self, module: torch.nn.Module) -> None:
        """A loss is to be computed."""
        if module in self._losses or self._ranks is None or not torch.is_grad_enabled():
            return
        self._losses.add(module)
        if self._noted[1] < _MOST_LOSSES:
            self._note("loss", self._noted[1], {type(module).__name__: _of_loss(module)})
            self._noted[1] += 1

    def _note(self, what: str, number: int, settings: Mapping[str, str]) -> None:
        self._log.note(
            observed=SETTINGS,
            of=[what, number],
            ranks=list(self._ranks or ()),
            settings=settings,
            at=site(self._log),
        )


def _of_model(model: torch.nn.Module) -> Iterator[tuple[str, str]]:
    """What PyTorch's own modules say of themselves, by their names, and how it is to compute."""
    for number, (name, module) in enumerate(model.named_modules()):
        if number < _MOST and type(module).__module__.startswith("torch.nn.modules"):
            said = module.extra_repr()
            if said:
                yield f"{type(module).__name__} {name.removeprefix('module.')}", said
    kind = next((one.device.type for one in model.parameters()), "cpu")
    enabled = torch.is_autocast_enabled(kind)
    yield "autocast", str(torch.get_autocast_dtype(kind)) if enabled else "off"


def _of_loss(loss: torch.nn.Module) -> str:
    """The numbers and words by which a loss computes, and some of its weights."""
    plain = {
        name: value
        for name, value in vars(loss).items()
        if isinstance(value, int | float | str) and not name.startswith("_") and name != "training"
    }
    weights = {
        name: samples_of(value)
        for name, value in loss.named_buffers()
        if value.numel() and readable(value)
    }
    return ", ".join(f"{name}={value}" for name, value in sorted({**plain, **weights}.items()))
