"""Own batches: what a model is given that is neither under DDP nor sharded, by its first module."""

from collections.abc import Sequence
from typing import Any

import torch

from steptime.check.observe.batches import FIRST, note_batch
from steptime.check.observe.buffers import tensors_in
from steptime.record.events import Log


class OwnBatches:
    """The first batches of this process, where its script reduces the gradients itself."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._seen = 0

    def given(self, module: torch.nn.Module, taken: Sequence[Any]) -> None:
        """A module runs before any other since the last backward.

        Among which ranks its gradients are reduced is known by the step, and not yet.
        """
        if self._seen == FIRST or not module.training:
            return
        self._seen += 1
        note_batch(self._log, model=-1, ranks=(), batch=self._seen, tensors=tensors_in(taken))
