"""Dropouts: by which numbers a process drops elements, for ranks may all draw the same."""

import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import before
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

DROPOUT = "dropout"
"""What is noted of a dropout that a training forward makes."""

_ARGUMENTS = ("input", "p", "training")
_MOST = 8
_LEAST_ELEMENTS = 64


class Dropouts:
    """The first dropouts of this process: the state of what each draws its mask by."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._noted = 0

    def dropped(self, *arguments: Any, **options: Any) -> None:
        """Some elements of a tensor are about to be dropped, by ``torch.nn.functional.dropout``."""
        if self._noted == _MOST:
            return
        given = dict(zip(_ARGUMENTS, arguments, strict=False)) | options
        tensor, training = given["input"], given.get("training", True)
        plain = type(tensor) is torch.Tensor and tensor.device.type in ("cpu", "cuda")
        if not (plain and training and given.get("p", 0.5) and torch.is_grad_enabled()):
            return
        if tensor.numel() < _LEAST_ELEMENTS:
            return
        if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
            return
        self._noted += 1
        state = torch.cuda.get_rng_state(tensor.device) if tensor.is_cuda else torch.get_rng_state()
        self._log.note(
            observed=DROPOUT,
            number=self._noted,
            state=zlib.crc32(state.numpy().data),
            shape=list(tensor.shape),
            at=site(self._log),
        )


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    return before([functional], "dropout", Contained("dropout").of(Dropouts(log).dropped))


OBSERVER = Observer(_observe)
