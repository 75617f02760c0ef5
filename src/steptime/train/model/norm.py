"""Normalisations, computed in fp32 whatever the dtype of their input."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steptime.workloads.models import Transformer


class LayerNorm(nn.Module):
    """Layer normalisation, as GPT-2 has it."""

    def __init__(self, channels: int, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension of ``x``, shape (B, T, C)."""
        weight, bias = self.weight.float(), self.bias.float()
        return F.layer_norm(x.float(), weight.shape, weight, bias, self.epsilon).to(x.dtype)


class RMSNorm(nn.Module):
    """Root mean square normalisation (Zhang and Sennrich, arXiv 1910.07467), as Llama has it."""

    def __init__(self, channels: int, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension of ``x``, shape (B, T, C)."""
        weight = self.weight.float()
        return F.rms_norm(x.float(), weight.shape, weight, self.epsilon).to(x.dtype)


def norm(model: Transformer) -> nn.Module:
    """The normalisation of a model's residual stream."""
    kind = LayerNorm if model.architecture.biased else RMSNorm
    return kind(model.hidden, model.norm_epsilon)
