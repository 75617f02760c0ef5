"""Words: the vocabulary shared by tensor-parallel ranks, and the loss over all of it."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from steptime.train.parallel.axes import Axes
from steptime.workloads.mesh import TENSOR
from steptime.workloads.models import Transformer
from steptime.workloads.tensor import laid_out
from steptime.world.communicator import Communicator


def words_of_rank(model: Transformer, axes: Axes) -> range:
    """The words, padding included, whose rows of the table a rank has."""
    each = laid_out(model, axes.mesh.tensor).vocabulary // axes.mesh.tensor
    return range(axes.at[TENSOR] * each, (axes.at[TENSOR] + 1) * each)


class _LossOfWords(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, first: int, comm: Communicator
    ) -> Tensor:
        greatest = logits.new_full((len(logits),), float("-inf"))
        if logits.shape[1]:  # of a rank with padding alone there is no logit
            greatest = logits.max(dim=1).values
        comm.all_reduce(greatest, dist.ReduceOp.MAX).wait()
        powers = (logits - greatest[:, None]).exp()
        total = powers.sum(dim=1)
        comm.all_reduce(total).wait()
        own = targets - first
        here = (own >= 0) & (own < logits.shape[1])
        own = own.where(here, 0)
        rows = torch.arange(len(logits), device=logits.device)
        wanted = logits.new_zeros(len(logits))
        wanted[here] = logits[rows[here], own[here]]
        comm.all_reduce(wanted).wait()
        ctx.save_for_backward(powers / total[:, None], rows[here], own[here])
        return (total.log() + greatest - wanted).mean()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        chances, rows, words = ctx.saved_tensors
        gradient = chances.clone()
        gradient[rows, words] -= 1
        return gradient * (gradients[0] / len(gradient)), None, None, None


def loss_of_words(logits: Tensor, targets: Tensor, first: int, comm: Communicator) -> Tensor:
    """Mean cross-entropy in nats, shape (), of logits of which each rank has some words.

    ``logits``, shape (N, words), fp32, are of the words from number ``first`` on; ``targets``,
    shape (N,), are numbers of the whole vocabulary. Three sums: the greatest logit, the sum of
    exponentials, and the logit of the target (Megatron-LM, vocab_parallel_cross_entropy).
    """
    loss: Tensor = _LossOfWords.apply(logits, targets, first, comm)  # type: ignore[no-untyped-call]
    return loss
