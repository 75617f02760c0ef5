"""FlatModel: a model whose parameters are views into one flat buffer, with one of gradients."""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from steptime.train.layout import Layout, Slot
from steptime.train.precision import Precision


@dataclass(frozen=True)
class FlatModel:
    """``parameters`` and ``gradients``, both 1-D of ``layout.size`` elements.

    The model computes with ``parameters``, whose dtype is that of the computation; ``gradients``
    have the dtype in which they are reduced. Padding is zero in both and stays so.
    """

    layout: Layout
    parameters: Tensor
    gradients: Tensor

    def gradient_of(self, slot: Slot) -> Tensor:
        """The gradient of one parameter, in its shape, as a view."""
        return self.gradients[slot.span.slice].view(slot.shape)


def flat_weights(model: nn.Module, layout: Layout) -> Tensor:
    """The model's parameters in one fp32 buffer, shape (layout.size,)."""
    named = dict(model.named_parameters())
    weights = torch.zeros(layout.size, device=next(model.parameters()).device)
    for slot in layout.slots:
        weights[slot.span.slice].view(slot.shape).copy_(named[slot.name].detach())
    return weights


def flatten(model: nn.Module, layout: Layout, parameters: Tensor, gradients: Tensor) -> FlatModel:
    """Make the model's parameters views into ``parameters``, which holds their values.

    Both buffers have the shape (layout.size,); ``gradients`` is zero.
    """
    named = dict(model.named_parameters())
    for slot in layout.slots:
        named[slot.name].data = parameters[slot.span.slice].view(slot.shape)
    return FlatModel(layout, parameters, gradients)


def own_buffers(weights: Tensor, precision: Precision) -> tuple[Tensor, Tensor]:
    """Buffers of parameters and of gradients, in this rank's own memory.

    ``weights``, shape (layout.size,), becomes the buffer of parameters where its dtype is that of
    computation.
    """
    return weights.to(precision.compute), torch.zeros_like(weights, dtype=precision.reduce)


def shared_buffers(weights: Tensor, precision: Precision) -> tuple[Tensor, Tensor]:
    """Parameters in one memory shared by all ranks, and gradients that other ranks can read.

    A collective call; the weights are those of rank 0. Raises SteptimeError when the ranks are not
    all on one host.
    """
    from steptime import backend  # no other strategy loads it

    parameters = backend.shared(*weights.shape, dtype=precision.compute)
    if dist.get_rank() == 0:
        parameters.copy_(weights)
    dist.barrier()
    return parameters, backend.empty(*weights.shape, dtype=precision.reduce).zero_()
