"""Meets: what parameters have become by steps before which ranks exchanged as much, or as many."""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from steptime.check.observe.contents import readable, samples_of
from steptime.check.observe.models import Models
from steptime.check.observe.moved import Moved
from steptime.check.observe.optimizers import parameters_of
from steptime.check.observe.reduced import Reduced
from steptime.check.observe.tensors import is_hooked, is_sharded
from steptime.record.events import Log
from steptime.record.places import site
from steptime.record.tensors import nbytes_of

MEETS = "meets"
"""What is noted of an optimizer's parameters before a step, behind an exchange."""

_MOST, _SPARSE = 32, 4  # parameters of an optimizer, and one in so many of their samples
_NOTES, _LEAST_TENSORS = 8, 4
_PART = 0.25
"""The part of the parameters' bytes that an exchange moves at least: metrics are summed up, too."""


@dataclass(eq=False)
class _Followed:
    """Some parameters of an optimizer, by their places in it, and the ``nbytes`` of all.

    ``moved``, ``sums``: the bytes that ranks had exchanged by its last step, and how many vectors
    they had summed up. ``noted``: how often.
    """

    places: Sequence[int]
    parameters: Sequence[weakref.ref[torch.Tensor]]
    nbytes: int
    tensors: int
    moved: int
    sums: int
    noted: int = 0


class Meets:
    """Parameters that neither DDP nor ``fully_shard`` has, of ranks that have no parts of a model.

    Where these send messages, or share layers, what each has may well be its own.
    """

    def __init__(self, log: Log, models: Models, reduced: Reduced) -> None:
        self._log = log
        self._models = models
        self._reduced = reduced
        self._followed: weakref.WeakKeyDictionary[Any, _Followed] = weakref.WeakKeyDictionary()
        self._moved = self._sums = 0

    def note(self, moved: Moved) -> None:
        """A call is made."""
        if not (self._models.in_backward and self._models.known):  # DDP's own, most of all
            self._moved += moved.nbytes
            self._sums += moved.kind == "all_reduce" and moved.tensors[0].ndim > 0

    def stepping(self, number: int, made: int, optimizer: Any) -> None:
        """The optimizer ``number`` is about to step, after so many steps."""
        if not dist.is_initialized() or dist.get_world_size() < 2 or self._are_parts():
            return
        if not made:
            self._follow(number, optimizer)
            return
        followed = self._followed.get(optimizer)
        if followed is None or followed.noted == _NOTES:
            return
        moved, followed.moved = self._moved - followed.moved, self._moved
        sums, followed.sums = self._sums - followed.sums, self._sums
        large = moved >= _PART * followed.nbytes
        if large or sums == followed.tensors >= _LEAST_TENSORS:  # each may be of a part, as its top
            followed.noted += 1
            self._note(number, made, followed, large=large)

    def _are_parts(self) -> bool:
        """Whether ranks seem to have parts of one model each."""
        one = self._reduced
        return bool(one.splits_layers or one.splitting or one.rings or one.of_parts)

    def _follow(self, number: int, optimizer: Any) -> None:
        of_models = self._models.ids()
        trained = [
            (at, one)
            for at, one in enumerate(parameters_of(optimizer))
            if one.grad is not None and id(one) not in of_models
        ]
        odd = any(is_sharded(one) or is_hooked(one) or not readable(one) for _, one in trained)
        if not trained or odd:
            return
        chosen = trained[:: -(-len(trained) // _MOST)]
        followed = self._followed[optimizer] = _Followed(
            places=[at for at, _ in chosen],
            parameters=[weakref.ref(one) for _, one in chosen],
            nbytes=sum(nbytes_of(one) for _, one in trained),
            tensors=len(trained),
            moved=self._moved,
            sums=self._sums,
        )
        self._note(number, 0, followed, large=True)

    def _note(self, number: int, made: int, followed: _Followed, *, large: bool) -> None:
        there = [one for ref in followed.parameters if (one := ref()) is not None]
        if len(there) == len(followed.parameters) and all(map(readable, there)):
            self._log.note(
                observed=MEETS,
                optimizer=number,
                step=made,
                large=large,
                places=list(followed.places),
                samples=[samples_of(one)[::_SPARSE] for one in there],
                at=site(self._log),
            )
