"""Clipping: by which norm a rank clips its gradients, and whether they are summed up only then."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from steptime.check.observe.buffers import Storage, memory_of, storage_of, tensors_in
from steptime.check.observe.contained import Contained, ContainedWatcher, watched_calls
from steptime.check.observe.contents import readable
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import Function, all_of, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.operations import Operation
from steptime.record.places import site

CLIPPED, SUMMED_LATER = "clipped", "summed later"
"""What is noted of gradients that are clipped, and of those that are reduced after that."""

_MOST = 8  # times for each line
_FLAT = "torch.distributed.fsdp._flat_param"


class Clipping:
    """The gradients that this process has clipped since the last step."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._noted: dict[int, int] = {}
        self._clipped: dict[int, tuple[Storage, int]] = {}
        self._told: set[tuple[int, int]] = set()

    def clipped(self, parameters: Sequence[Any], norm: Any, most: float) -> None:
        """Gradients have been clipped, by a norm that this rank has computed."""
        gradients = [one.grad for one in parameters if one.grad is not None]
        at = site(self._log)
        for one in gradients:
            if type(one) is torch.Tensor:
                storage = storage_of(one)
                self._clipped[storage.cdata] = storage, at
        times = self._noted[at] = self._noted.get(at, 0) + 1
        if times <= _MOST and type(norm) is torch.Tensor and readable(norm):
            sharded = any(map(_is_shard_of_fsdp, parameters))
            self._log.note(
                observed=CLIPPED, at=at, number=times, norm=float(norm), most=most, sharded=sharded
            )

    def issued(
        self,
        operation: Operation,
        group: Any,
        arguments: Sequence[Any],
        *,
        peer: int,
        asynchronous: bool,
    ) -> None:
        """Tell of gradients that are summed up though they have been clipped."""
        del peer, asynchronous
        if not self._clipped or not operation.reduces or group.size() < 2:
            return
        for tensor in tensors_in(operation.vector(arguments)):
            storage, at = self._clipped.get(memory_of(tensor), (None, 0))
            if storage is None or storage.expired():
                continue
            told = at, site(self._log)
            if told not in self._told:
                self._told.add(told)
                self._log.note(observed=SUMMED_LATER, clipped_at=told[0], at=told[1])

    def stepped(self, *_: Any) -> None:
        """The gradients are used; those of the next step are others."""
        self._clipped.clear()


def _is_shard_of_fsdp(parameter: Any) -> bool:
    """Whether it is a rank's part of what FullyShardedDataParallel, the first, has made flat."""
    flat = sys.modules.get(_FLAT)
    whole = flat is not None and isinstance(parameter, flat.FlatParameter)
    return whole or getattr(parameter, "_fsdp_flattened", False)


def _observe(log: Log, calls: Calls) -> Callable[[], None]:
    contained = Contained("clipping")
    clipping = Clipping(log)
    clipped = contained.of(clipping.clipped)

    def clipping_too(clip: Function) -> Function:
        def clips(parameters: Any, max_norm: float, *arguments: Any, **options: Any) -> Any:
            of = [parameters] if isinstance(parameters, torch.Tensor) else [*parameters]
            norm = clip(of, max_norm, *arguments, **options)
            clipped(of, norm, float(max_norm))
            return norm

        return clips

    modules = [torch.nn.utils, torch.nn.utils.clip_grad]
    return all_of(
        [
            watched_calls(calls, ContainedWatcher(contained, clipping.issued)),
            replaced(modules, "clip_grad_norm_", clipping_too),
            register_optimizer_step_post_hook(contained.of(clipping.stepped)).remove,
        ]
    )


OBSERVER = Observer(_observe)
