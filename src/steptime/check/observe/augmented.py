"""Augmented: by which random numbers samples are changed as they are loaded."""

import mmap
import os
import random
import struct
import sys
import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, get_worker_info

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import Function, all_of, before, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site
from steptime.world import compat

AUGMENTED = "augmented"
"""What is noted of the first batch whose making draws: the state of the generators that it uses."""

_GENERATORS = ("torch", "random", "numpy")
_MOST_FETCHES, _MOST_WORKERS = 3, 256
_SLOT = struct.Struct("<II")
"""What a worker tells: which generators its batch has drawn from, a bit each, and their state."""


class Augmented:
    """The batches that this process makes, and what its workers say of theirs.

    Workers are forked: they write into memory that is shared with them, one slot each. What an
    IterableDataset draws may be the order of which every rank takes its part.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._slots = mmap.mmap(-1, _SLOT.size * _MOST_WORKERS)
        self._fetches = self._at = 0
        self._process = os.getpid()  # a DataLoader's worker has its own

    @property
    def over(self) -> bool:
        """Whether enough batches were looked at in this process."""
        return self._fetches == _MOST_FETCHES

    def begins(self, _: Any) -> None:
        """A pass through a DataLoader begins."""
        self._at = self._at or site(self._log)

    def fetched(self, before: list[int]) -> None:
        """A batch was made, before which the generators were in these states."""
        self._fetches += 1
        drawn = [now != then for now, then in zip(_states(), before, strict=True)]
        if not any(drawn):
            return
        self._fetches = _MOST_FETCHES
        used = [state for state, is_drawn in zip(before, drawn, strict=True) if is_drawn]
        bits = sum(is_drawn << at for at, is_drawn in enumerate(drawn))
        state = zlib.crc32(repr(used).encode())
        worker = get_worker_info()
        if worker is None:
            self._note(-1, bits, state)
        elif worker.id < _MOST_WORKERS:
            begin = _SLOT.size * worker.id
            if not any(self._slots[begin : begin + _SLOT.size]):
                self._slots[begin : begin + _SLOT.size] = _SLOT.pack(bits, state)

    def end(self) -> None:
        """The process ends."""
        for worker, (bits, state) in enumerate(_SLOT.iter_unpack(self._slots[:])):
            if bits and os.getpid() == self._process:
                self._note(worker, bits, state)

    def _note(self, worker: int, bits: int, state: int) -> None:
        drawn = [name for at, name in enumerate(_GENERATORS) if bits >> at & 1]
        self._log.note(observed=AUGMENTED, worker=worker, drawn=drawn, state=state, at=self._at)


def _states() -> list[int]:
    """The states of the generators that a dataset may draw from, as numbers."""
    numpy = sys.modules.get("numpy")
    of_numpy = numpy.random.get_state() if numpy else (0, torch.zeros(0).numpy(), 0)
    return [
        zlib.crc32(torch.get_rng_state().numpy().data),
        hash(random.getstate()[1]),
        zlib.crc32(of_numpy[1].data) ^ int(of_numpy[2]),
    ]


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    contained = Contained("augmentation")
    augmented = Augmented(log)
    fetched = contained.of(augmented.fetched)
    states = contained.of(_states)

    def fetching(fetch: Function) -> Function:
        def fetches(fetcher: Any, chosen: Any) -> Any:
            before = None if augmented.over else states()
            data = fetch(fetcher, chosen)
            if before is not None:
                fetched(before)
            return data

        return fetches

    return all_of(
        [
            augmented.end,
            before([DataLoader], "__iter__", contained.of(augmented.begins)),
            replaced([compat.loading_class()], "fetch", fetching),
        ]
    )


OBSERVER = Observer(_observe)
