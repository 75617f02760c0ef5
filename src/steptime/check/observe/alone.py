"""Alone: whether anything as large as gradients goes between ranks while an optimizer steps."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from steptime.check.observe.buffers import Remembered, storage_of
from steptime.check.observe.contents import hash_of, readable
from steptime.check.observe.models import Models
from steptime.check.observe.moved import Moved
from steptime.check.observe.optimizers import parameters_of, settings_of
from steptime.check.observe.setups import launchers_number
from steptime.check.observe.tensors import is_hooked, is_sharded
from steptime.record.events import Log
from steptime.record.places import site
from steptime.record.tensors import nbytes_of

ALONE = "alone"
"""What is noted of an optimizer whose gradients went to no other rank."""

BEGINS = "begins"
"""What is noted of what an optimizer begins with, and of the gradients of its first step."""

_STEPS = 4
"""So many steps an optimizer makes at least: those of an inner loop begin anew time and again."""

_PART = 0.25
"""The part of all steps in the process that are its own at least, of its parameters' bytes that go
between ranks at most, and of the steps before which vectors do: metrics are summed up, too."""

_LEAST_VECTOR = 8
_MOST_REMEMBERED = 100_000
_MOST_HASHED = 16  # optimizers: an inner loop makes a new one each time


@dataclass(frozen=True, eq=False)
class _Trained:
    """An optimizer by its fourth step: the elements and bytes of the parameters that it trains.

    ``world``: the ranks that the script has made a group of, 0 where it has made none. ``given``:
    they began with what one of them had broadcast. ``begun``: a hash of what it began with;
    ``settings``: the numbers by which it steps. ``sharded``: over a mesh of this rank alone.
    ``at``: where.
    """

    elements: Sequence[int]
    nbytes: int
    world: int
    given: bool
    begun: int
    settings: Sequence[Mapping[str, float]]
    sharded: bool
    at: int


class Alone:
    """What the ranks exchange beside what DDP does, from the first step of any optimizer on."""

    def __init__(self, log: Log, models: Models) -> None:
        self._log = log
        self._models = models
        self._trained: dict[int, _Trained] = {}
        self._made: dict[int, int] = {}
        self._given: set[int] = set()
        self._begun: dict[int, int] = {}
        self._broadcast, self._own = Remembered(_MOST_REMEMBERED), Remembered(_MOST_REMEMBERED)
        self._own_sizes: dict[int, int] = {}
        self._from: Counter[int] = Counter()
        self._taken: Counter[int] = Counter()
        self._taken_at = 0
        self._nbytes = self._steps = self._busy = 0
        self._moved = self._shares = False

    def note(self, moved: Moved) -> None:
        """A call is made."""
        if self._shares or (self._models.in_backward and self._models.known):
            return  # DDP's own, most of all
        # Ranks that have parts of a model send its activations, or their gradients in a backward.
        self._shares = moved.operation.is_message or (
            self._models.in_backward and not moved.operation.reduces
        )
        vectors = [one for one in moved.tensors if one.numel() >= _LEAST_VECTOR]
        if moved.kind == "broadcast":
            self._broadcast.add(moved.storages)
            if self._steps and vectors:
                self._spread(moved, vectors)
        elif self._steps:
            self._nbytes += sum(map(nbytes_of, vectors))
            self._moved = self._moved or any(one.is_floating_point() for one in vectors)

    def _spread(self, moved: Moved, vectors: Sequence[torch.Tensor]) -> None:
        """A rank gives others what it has, and gets nothing of theirs.

        If these are parameters, they are those of one rank on all ranks from now on: what the
        others have made of them is gone.
        """
        whole = moved.ranks == tuple(range(dist.get_world_size()))
        root = moved.root if whole else -1
        self._from[root] += sum(map(nbytes_of, vectors))
        if self._are_own(vectors):
            self._taken[root] += sum(one.numel() for one in vectors)
            self._taken_at = site(self._log)

    def _are_own(self, vectors: Sequence[torch.Tensor]) -> bool:
        """Whether these are parameters that are trained, or all of an optimizer's in one."""
        in_one = len(vectors) == 1 and vectors[0].numel() in self._own_sizes.values()
        return in_one or all(one in self._own for one in vectors)

    def stepping(self, number: int, made: int, optimizer: Any) -> None:
        """The optimizer ``number`` is about to step, after so many steps."""
        self._steps += 1
        self._busy += self._moved
        self._moved = False
        if number in self._trained:
            self._made[number] = made + 1
        if made not in (0, _STEPS - 1):
            return
        if not made:
            self._note_shards(number, optimizer)
        sharded = [one for one in parameters_of(optimizer) if _is_sharded_alone(one)]
        trained = [one for one in parameters_of(optimizer) if _is_own(one)]
        world = dist.get_world_size() if dist.is_initialized() else 0
        of_models = self._models.ids()
        every = [*trained, *sharded]
        if not every or (world > 1 and any(id(one) in of_models for one in trained)):
            return
        if not made:
            if trained and all(map(self._was_broadcast, trained)):
                self._given.add(number)
            if trained and all(map(readable, trained)) and len(self._begun) < _MOST_HASHED:
                self._own.add(storage_of(one) for one in trained)
                self._own_sizes[number] = sum(one.numel() for one in trained)
                self._begun[number] = hash_of(trained)
                self._note_begin(number, trained, [one.grad for one in trained])
        else:
            self._trained[number] = _Trained(
                elements=[one.numel() for one in every],
                nbytes=sum(map(nbytes_of, every)),
                world=world,
                given=number in self._given,
                begun=self._begun.get(number, 0),
                settings=settings_of(optimizer),
                sharded=bool(sharded),
                at=site(self._log),
            )
            self._made[number] = made + 1

    def _note_shards(self, number: int, optimizer: Any) -> None:
        """Note what a rank's shards begin with: they may have replicas on ranks of other meshes."""
        sharded: list[Any] = [one for one in parameters_of(optimizer) if is_sharded(one)]
        shards = [one.detach().to_local() for one in sharded]
        if shards and all(map(readable, shards)) and len(self._begun) < _MOST_HASHED:
            self._begun[number] = hash_of(shards)
            self._note_begin(number, shards, [_shard(one.grad) for one in sharded])

    def _note_begin(
        self,
        number: int,
        trained: Sequence[torch.Tensor],
        gradients: Sequence[torch.Tensor | None],
    ) -> None:
        if dist.is_initialized() and dist.get_world_size() > 1:
            self._log.note(
                observed=BEGINS,
                optimizer=number,
                elements=[one.numel() for one in trained],
                begun=self._begun[number],
                gradients=hash_of(one for one in gradients if one is not None),
                at=site(self._log),
            )

    def _was_broadcast(self, parameter: torch.Tensor) -> bool:
        return parameter.numel() < _LEAST_VECTOR or parameter in self._broadcast

    def end(self) -> None:
        """The process ends: note the optimizers of which nothing tells that gradients went away."""
        if self._shares or self._busy >= _PART * self._steps:
            return
        own = sum(self._own_sizes.values())
        gathers = len(self._from) > 1 or not self._taken
        nbytes = self._nbytes + (self._from.total() if gathers else 0)
        for number, one in self._trained.items():
            made = self._made[number]
            if made >= _PART * self._steps and nbytes < _PART * one.nbytes:
                self._log.note(
                    observed=ALONE,
                    optimizer=number,
                    steps=made,
                    elements=list(one.elements),
                    world=one.world,
                    started=launchers_number("WORLD_SIZE", 1),
                    given=one.given,
                    begun=one.begun,
                    settings=list(one.settings),
                    sharded=one.sharded,
                    taken=[(root, elements / own) for root, elements in self._taken.items()],
                    taken_at=self._taken_at,
                    at=one.at,
                )


def _is_own(parameter: torch.Tensor) -> bool:
    """Whether a parameter is trained, and whole, and neither shared memory nor hooked."""
    return (
        parameter.grad is not None
        and not is_sharded(parameter)
        and (parameter.is_cuda or not parameter.is_shared())
        and not is_hooked(parameter)
    )


def _is_sharded_alone(parameter: Any) -> bool:
    """Whether a parameter is trained, and spread over a mesh that is this rank alone."""
    spread = is_sharded(parameter) and parameter.grad is not None
    return spread and parameter.device_mesh.size() == 1


def _shard(gradient: Any) -> torch.Tensor | None:
    """The rank's own part of a gradient, if there is any."""
    return gradient.to_local() if is_sharded(gradient) else None
