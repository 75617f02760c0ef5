"""A model whose parameters are views into one flat buffer, and the buffer of its gradients."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from steptime.train.layout import Layout, Slot


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


def flatten(
    model: nn.Module, layout: Layout, weights: Tensor, compute: torch.dtype, reduce: torch.dtype
) -> FlatModel:
    """Make the model's parameters views into a buffer of ``weights`` in dtype ``compute``.

    ``weights``, shape (layout.size,), is that buffer itself where its dtype is ``compute``.
    """
    parameters = weights.to(compute)
    named = dict(model.named_parameters())
    for slot in layout.slots:
        named[slot.name].data = parameters[slot.span.slice].view(slot.shape)
    return FlatModel(layout, parameters, torch.zeros_like(weights, dtype=reduce))
