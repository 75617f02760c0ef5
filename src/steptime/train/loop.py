"""The training loop, in the open."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from steptime.timeline import Phase, computing, stepping
from steptime.train.live import Live
from steptime.train.precision import LossScale


@dataclass(frozen=True)
class StepOutcome:
    """The result of one step.

    ``loss`` is this rank's mean over its rows and ``norm`` that of the whole gradient (0 where
    nothing needed it), both of shape (): reading them waits for the device. ``loss_scale`` is that
    of the next step; ``left_out``: the weights stayed as they were, since somebody asked for that.
    """

    step: int
    loss: Tensor
    norm: Tensor
    learning_rate: float
    loss_scale: LossScale
    left_out: bool = False


def training_steps(
    training: Live,
    first: int,
    loss_scale: LossScale | None = None,
    *,
    batches_ahead: int = 0,
    leave_out: Callable[[Tensor, Tensor], bool] | None = None,
) -> Iterator[StepOutcome]:
    """Train from step ``first`` to the last, one step each time the iterator is advanced.

    ``batches_ahead``: by how much the number of a step's batch is above its own, where batches were
    passed over. ``leave_out`` is told the loss and the norm of each step before its update, and
    whether to leave that out; all ranks must be of one mind.

    Between two steps an overlapped strategy may still be sharing parameters:
    ``training.settle()`` waits for it.
    """
    scale = loss_scale or LossScale(scale=65536.0 if training.precision.scaled else 1.0)
    for step in range(first, training.steps):
        recorder = training.recorder
        if recorder:
            recorder.begin_step(step)
        rate = training.learning_rate(step)
        with stepping(recorder, training.strategy.name):
            loss = training.gradients(step + batches_ahead, scale.scale)
            with computing(recorder, "update", Phase.UPDATE):
                norm, divisor = _norm_and_divisor(training, scale.scale, bool(leave_out))
                left_out = leave_out is not None and leave_out(loss, norm)
                overflowed = training.precision.scaled and not bool(torch.isfinite(norm))
                if not (overflowed or left_out):
                    training.update(rate, divisor)
        if training.precision.scaled and not left_out:
            scale = scale.after(overflowed)
        yield StepOutcome(step, loss, norm, rate, scale, left_out)


def _norm_and_divisor(training: Live, scale: float, asked: bool) -> tuple[Tensor, Tensor | None]:
    """Norm of the whole gradient, and the divisor by which AdamW unscales and clips it.

    The norm is 0 where neither these nor somebody who ``asked`` need it.
    """
    clip, scaled = training.options.clip, training.precision.scaled
    if not (clip or scaled or asked):
        return torch.zeros((), device=training.device), None
    norm = training.squared_norm().sqrt().float() / scale
    if not (clip or scaled):
        return norm, None
    return norm, (norm / clip).clamp(min=1.0) * scale if clip else torch.full_like(norm, scale)
