"""A mixture of experts in place of an MLP: a router sends each token to a few of many.

Jiang et al., "Mixtral of Experts" (arXiv 2401.04088, section 2.1). Shapes: B rows, T positions, C
channels, N tokens in all, K experts of each.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steptime.train.model.mlp import activated
from steptime.train.parallel.axes import ALONE, Axes
from steptime.train.parallel.experts import held_experts, through_experts
from steptime.train.parallel.movements import enter, leave
from steptime.workloads.models import Transformer


class Expert(nn.Module):
    """An MLP of which this rank has some columns, for the sum over tensor ranks that follows."""

    def __init__(self, model: Transformer, tensor: int) -> None:
        super().__init__()
        self._tensor = tensor
        inner, biased = (model.expert_inner or model.inner) // tensor, model.architecture.biased
        self.gate = (
            nn.Linear(model.hidden, inner, bias=biased) if model.architecture.gated else None
        )
        self.fc = nn.Linear(model.hidden, inner, bias=biased)
        self.proj = nn.Linear(inner, model.hidden, bias=biased)

    def forward(self, x: Tensor) -> Tensor:
        """This rank's term of the output, shape (N, C) as ``x``."""
        out = F.linear(activated(self.gate, self.fc, x), self.proj.weight)
        return out if self.proj.bias is None else out + self.proj.bias / self._tensor


class Mixture(nn.Module):
    """The experts of a block: those that this rank holds, and ways to all others.

    No expert has a capacity, and none drops a token. A token's output is the mean of its experts',
    weighted by the softmax, in fp32, of the scores that the router gives them.
    """

    def __init__(self, model: Transformer, axes: Axes = ALONE) -> None:
        super().__init__()
        self._axes = axes
        self._top_k = model.top_k
        self._experts = model.experts
        # Ranks that hold shares of the tokens route their own; the way to the experts gathers them.
        self._of_shares = axes.sequence_parallel and axes.mesh.expert > 1
        self.router = nn.Linear(model.hidden, model.experts, bias=False)
        held = held_experts(model.experts, axes)
        self.experts = nn.ModuleDict({str(n): Expert(model, axes.mesh.tensor) for n in held})

    def forward(self, x: Tensor) -> Tensor:
        """Shape (B, T, C) in and out."""
        if self._of_shares:
            return self._mixed(x)
        return leave(self._mixed(enter(x, self._axes)), self._axes)

    def _mixed(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        weights, chosen = self._routed(tokens)
        order = chosen.flatten().argsort(stable=True)  # by expert
        counts = chosen.flatten().bincount(minlength=self._experts)
        made = through_experts(tokens[order // self._top_k], counts, self._axes, self._computed)
        found = made[order.argsort()].unflatten(0, chosen.shape)  # (N, K, C)
        out: Tensor = (found * weights[..., None]).sum(1)
        return out.view_as(x)

    def _routed(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The weight and the number of each expert of each token, both of shape (N, K)."""
        chances = torch.softmax(self.router(tokens).float(), dim=-1)
        best, chosen = chances.topk(self._top_k, dim=-1)
        return (best / best.sum(-1, keepdim=True)).to(tokens.dtype), chosen

    def _computed(self, rows: Tensor, counts: list[int]) -> Tensor:
        """What this rank's experts make of rows, sorted by expert: so many of each."""
        parts = zip(self.experts.values(), rows.split(counts), strict=True)
        return torch.cat([expert(part) for expert, part in parts])
