"""Evaluations: what a model is given between two trainings, and how long that takes."""

import time
from collections.abc import Sequence
from typing import Any

from steptime.check.observe.buffers import tensors_in
from steptime.check.observe.contents import OF_BATCHES, hash_of, readable
from steptime.record.events import Log
from steptime.record.places import site

EVALUATION = "evaluation"
"""What is noted of the forwards without gradients between two backwards of a model's training."""

_MOST, _FIRST = 20, 10


class Evaluations:
    """The evaluations of a process, each noted when the next one, a training or the end begins."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._noted = 0
        self._of: tuple[int, int] = (-1, -1)
        self._ranks: Sequence[int] = ()
        self._hashes: list[int] = []
        self._batches = self._at = 0
        self._begin_ns = self._end_ns = 0

    def ran(self, model: int, ranks: Sequence[int], backwards: int, given: Any, made: Any) -> None:
        """A model has run without gradients on what it was given by position, and made something.

        ``backwards``: how many there were before. What is given by name alone is not seen of DDP:
        then what is made of it, as replicas make the same of the same.
        """
        if self._noted >= _MOST or not backwards:
            return
        if (model, backwards) != self._of:
            self.end()
            self._of, self._ranks = (model, backwards), ranks
            self._begin_ns, self._at = time.perf_counter_ns(), site(self._log)
        self._batches += 1
        tensors = list(tensors_in(given)) or list(tensors_in(made))
        plain = all(map(readable, tensors))
        if self._batches <= _FIRST and tensors and plain:
            self._hashes.append(hash_of(tensors, OF_BATCHES))
        self._end_ns = time.perf_counter_ns()

    def end(self) -> None:
        """Note the latest evaluation."""
        if self._batches > 1:
            self._noted += 1
            of_one = (self._end_ns - self._begin_ns) / (self._batches - 1)
            self._log.note(
                observed=EVALUATION,
                model=self._of[0],
                ranks=list(self._ranks),
                batches=self._batches,
                hashes=self._hashes,
                took_ns=round(of_one * self._batches),
                at=self._at,
            )
        self._batches, self._hashes = 0, []
