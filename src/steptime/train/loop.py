"""The training loop, in the open."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from steptime.timeline import Phase, recording
from steptime.train.data import Batch
from steptime.train.precision import LossScale
from steptime.train.training import Training


@dataclass(frozen=True)
class StepOutcome:
    """The result of one step.

    ``loss`` is this rank's mean over its rows and ``norm`` that of the whole gradient (0 where
    nothing needed it), both of shape (): reading them waits for the device. ``loss_scale`` is that
    of the next step.
    """

    step: int
    loss: Tensor
    norm: Tensor
    learning_rate: float
    loss_scale: LossScale


def training_steps(
    training: Training, first: int, loss_scale: LossScale | None = None
) -> Iterator[StepOutcome]:
    """Train from step ``first`` to the last, one step each time the iterator is advanced.

    Between two steps an overlapped strategy may still be sharing parameters:
    ``training.sync.settle()`` waits for it.
    """
    scale = loss_scale or LossScale(scale=65536.0 if training.precision.scaled else 1.0)
    for step in range(first, training.steps):
        recorder = training.comm.recorder
        if recorder:
            recorder.begin_step(step)
        rate = training.learning_rate(step)
        with recording(recorder, "step", training.strategy.name, Phase.STEP):
            loss = _forward_and_backward(training, step, scale.scale)
            training.sync.reduce()
            with recording(recorder, "compute", "update", Phase.UPDATE):
                norm, divisor = _norm_and_divisor(training, scale.scale)
                overflowed = training.precision.scaled and not bool(torch.isfinite(norm))
                if not overflowed:
                    for bucket in range(len(training.flat.layout.buckets)):
                        training.optimizer.update(bucket, rate, divisor)
                        training.sync.share(bucket)
        if training.precision.scaled:
            scale = scale.after(overflowed)
        yield StepOutcome(step, loss, norm, rate, scale)


def _forward_and_backward(training: Training, step: int, scale: float) -> Tensor:
    """Accumulate the gradients of all micro-batches; the mean loss of this rank, shape ()."""
    recorder, parts = training.comm.recorder, training.options.accumulate
    with recording(recorder, "data", "batch", Phase.OTHER):
        inputs, targets = (to_device(rows, training.device) for rows in training.batches.at(step))
    total = torch.zeros((), device=training.device)
    weight = scale / (training.comm.ranks * parts)
    micro_batches = zip(inputs.chunk(parts), targets.chunk(parts), strict=True)
    for index, (x, y) in enumerate(micro_batches):
        training.sync.expect(first=index == 0, last=index == parts - 1)
        with recording(recorder, "compute", "forward", Phase.COMPUTE):
            loss = training.model(x, y)
        with recording(recorder, "compute", "backward", Phase.COMPUTE):
            (loss * weight).backward()
        total += loss.detach()
    return total / parts


def _norm_and_divisor(training: Training, scale: float) -> tuple[Tensor, Tensor | None]:
    """Norm of the whole gradient, and the divisor by which AdamW unscales and clips it."""
    clip = training.options.clip
    if not clip and not training.precision.scaled:
        return torch.zeros((), device=training.device), None
    squares = training.optimizer.squared_norm()
    if training.partitioned:
        training.comm.all_reduce(squares).wait()
    norm = squares.sqrt().float() / scale
    return norm, (norm / clip).clamp(min=1.0) * scale if clip else torch.full_like(norm, scale)


@torch.no_grad()
def evaluate(training: Training, batches: Iterator[Batch]) -> float:
    """Mean loss in nats a token over the ``batches`` of all ranks, each with as many."""
    training.sync.settle()
    losses = [
        training.model(to_device(x, training.device), to_device(y, training.device))
        for x, y in batches
    ]
    return mean_over_ranks(torch.stack(losses).mean())


def mean_over_ranks(value: Tensor) -> float:
    """Mean over all ranks of a value of shape (); outside of steps, so not counted as traffic."""
    total = value.detach().clone()
    dist.all_reduce(total)
    return float(total) / dist.get_world_size()


def to_device(rows: NDArray[np.int64], device: torch.device) -> Tensor:
    """``rows`` as a tensor on ``device``."""
    return torch.from_numpy(rows).to(device, non_blocking=True)
