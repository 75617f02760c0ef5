"""Batches: what the ranks of a model are trained on, and how samplers go through the data."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DistributedSampler

from steptime.check.observe.buffers import tensors_in
from steptime.check.observe.contained import Contained
from steptime.check.observe.contents import OF_BATCHES, hash_of, readable, rows_of
from steptime.check.observe.datasets import Contents, contents_of
from steptime.check.observe.forwards import watched_forwards
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import Function, all_of, replaced
from steptime.check.observe.tensors import is_constant
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

BATCH, PASS = "batch", "pass"
"""What is noted of a batch that a model is given, and of a pass through the data.

Where no ``ranks`` are told a script may reduce the gradients itself.
"""

FIRST = 16
"""So many batches of a model are looked at: ranks that read alike do so from the first on, and a
discriminator that reads samples after what a generator has made is given some of them."""
_MOST_PASSES = 20

_DRAWN = 4
"""Numbers of which several ranks hardly draw so many alike by chance, batch after batch."""


@dataclass(frozen=True, eq=False)
class Pass:
    """A pass of a DistributedSampler, which the line ``at`` asked for, through a dataset.

    ``order``: what its shuffling is seeded by, the sum of seed and epoch. ``contents``: what the
    dataset consists of.
    """

    at: int
    dataset: int
    size: int
    replicas: int
    shuffled: bool
    order: int
    epoch: int
    contents: Contents | None


class Batches:
    """What this process trains on, as far as models and samplers of PyTorch's own tell."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._numbers: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()
        self._seen: dict[int, int] = {}
        self._latest: Pass | None = None
        self._noted: list[Pass] = []
        self._contents: dict[int, Contents | None] = {}

    def given(
        self,
        module: torch.nn.Module,
        ranks: Sequence[int],
        arguments: Sequence[Any],
        options: Mapping[str, Any],
    ) -> None:
        """A model that ``ranks`` have replicas or shards of runs forward on these arguments."""
        # Lightning puts DDP itself into evaluation while its model trains.
        trains = torch.is_grad_enabled() and any(one.training for one in module.modules())
        if len(ranks) < 2 or not trains:
            return
        # Not how many there are: one that is gone had its number, too.
        number = self._numbers.setdefault(module, len(self._seen))
        batch = self._seen[number] = self._seen.get(number, 0) + 1
        if batch <= FIRST:
            tensors = tensors_in([*arguments, *options.values()])
            note_batch(self._log, model=number, ranks=ranks, batch=batch, tensors=tensors)

    def began(self, sampler: Any) -> Pass:
        """A sampler begins to go through its data."""
        return Pass(
            at=site(self._log),
            dataset=id(sampler.dataset),
            size=len(sampler.dataset),
            replicas=sampler.num_replicas,
            shuffled=bool(sampler.shuffle),
            order=sampler.seed + sampler.epoch,
            epoch=sampler.epoch,
            contents=self._contents_of(sampler.dataset),
        )

    def _contents_of(self, dataset: Any) -> Contents | None:
        """What a dataset consists of, looked at once."""
        if id(dataset) not in self._contents:
            self._contents[id(dataset)] = contents_of(dataset)
        return self._contents[id(dataset)]

    def following(self, one: Pass | None, indices: Iterable[int]) -> Iterator[int]:
        """The indices of a pass: whichever is asked for an index last is the one trained on."""
        for index in indices:
            self._latest = one
            yield index

    def stepping(self, *_: Any) -> None:
        """An optimizer is about to step: the latest pass is trained on, and noted once."""
        one = self._latest
        if one is not None and one not in self._noted and len(self._noted) < _MOST_PASSES:
            self._noted.append(one)
            self._log.note(observed=PASS, **asdict(one))


def note_batch(
    log: Log, *, model: int, ranks: Sequence[int], batch: int, tensors: Iterable[torch.Tensor]
) -> None:
    """Note what the tensors of a batch hold."""
    whole = [one for one in tensors if _whole(one)]
    if whole and all(map(readable, whole)):
        of_rows = (rows_of(one) for one in whole if one.dim() > 1)
        log.note(
            observed=BATCH,
            model=model,
            ranks=list(ranks),
            batch=batch,
            hashes=[hash_of([one], OF_BATCHES) for one in whole],
            drawn=[one.numel() >= _DRAWN and not is_constant(one) for one in whole],
            rows=next((rows for rows in of_rows if len(rows) == len(set(rows)) > 1), []),
            at=site(log),
        )


def _whole(tensor: torch.Tensor) -> bool:
    """Whether a tensor has its bits here, in rows: what is spread over ranks has not."""
    return tensor.layout == torch.strided and not hasattr(tensor, "placements")


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    batches = Batches(log)
    contained = Contained("batches")
    began = contained.of(batches.began)

    def passing(follow: Function) -> Function:
        def passes(sampler: Any) -> Iterator[int]:
            return batches.following(began(sampler), follow(sampler))

        return passes

    return all_of(
        [
            watched_forwards(contained, batches.given),
            replaced([DistributedSampler], "__iter__", passing),
            register_optimizer_step_pre_hook(contained.of(batches.stepping)).remove,
        ]
    )


OBSERVER = Observer(_observe)
