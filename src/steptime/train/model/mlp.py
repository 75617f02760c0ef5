"""The MLP of a block: two matrices with GELU, or three with a gate (SwiGLU)."""

import torch.nn.functional as F
from torch import Tensor, nn

from steptime.train.model.attention import summed_linear
from steptime.train.model.gelu import fused, gelu_mlp
from steptime.train.parallel.axes import ALONE, Axes
from steptime.train.parallel.movements import enter, leave
from steptime.workloads.models import Transformer


class MLP(nn.Module):
    """Maps each position on its own; this rank has some columns of the inner activations."""

    def __init__(self, model: Transformer, axes: Axes = ALONE) -> None:
        super().__init__()
        self._axes = axes
        inner, biased = model.inner // axes.mesh.tensor, model.architecture.biased
        self.gate = (
            nn.Linear(model.hidden, inner, bias=biased) if model.architecture.gated else None
        )
        self.fc = nn.Linear(model.hidden, inner, bias=biased)
        self.proj = nn.Linear(inner, model.hidden, bias=biased)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (B, T, C) in and out."""
        x = enter(x, self._axes)
        fc, proj = self.fc, self.proj
        if self.gate is None and type(fc) is nn.Linear and fused(x, fc.weight):
            made = leave(gelu_mlp(x, fc.weight, fc.bias, proj.weight), self._axes)
            return made + proj.bias
        return summed_linear(activated(self.gate, self.fc, x), self.proj, self._axes)


def activated(gate: nn.Linear | None, fc: nn.Linear, x: Tensor) -> Tensor:
    """The inner activations: GELU (tanh form), or SiLU of a gate times the rest (2002.05202)."""
    if gate is None:
        return F.gelu(fc(x), approximate="tanh")
    out: Tensor = F.silu(gate(x)) * fc(x)
    return out
