"""Causal self-attention, with heads of their own keys or shared ones, learned or rotary positions.

Shapes: B rows, T positions, C channels, H heads of this rank of width D.
"""

from contextlib import nullcontext
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from steptime.train.fp8 import product
from steptime.train.parallel.axes import ALONE, Axes
from steptime.train.parallel.context import attend_to_row, whole_row
from steptime.train.parallel.movements import enter, leave
from steptime.workloads.mesh import CONTEXT
from steptime.workloads.models import Transformer

_FASTEST_FIRST = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]
"""On an H200 cuDNN's takes two thirds of the time of flash attention, which torch prefers."""


class Attention(nn.Module):
    """Attention of this rank's heads; the softmax runs in fp32 inside the fused kernel.

    ``again``: backward computes its scores anew instead of keeping what it needs of them.
    """

    def __init__(self, model: Transformer, axes: Axes = ALONE, *, again: bool = False) -> None:
        super().__init__()
        self._again = again
        self._axes = axes
        self.theta = None if model.architecture.learned_positions else model.rope_theta
        self.width = model.query_width
        self.heads = model.heads // axes.mesh.tensor
        self.kv_heads = model.kv_heads // axes.mesh.tensor
        biased = model.architecture.biased
        queries, keys = self.heads * self.width, self.kv_heads * self.width
        self.fused = model.architecture.fused
        if self.fused:
            self.qkv = nn.Linear(model.hidden, queries + 2 * keys, bias=biased)
        else:
            self.q = nn.Linear(model.hidden, queries, bias=biased)
            self.k = nn.Linear(model.hidden, keys, bias=biased)
            self.v = nn.Linear(model.hidden, keys, bias=biased)
        self.proj = nn.Linear(queries, model.hidden, bias=biased)

    def forward(self, x: Tensor) -> Tensor:
        """Attend from every position to itself and all before it, shape (B, T, C)."""
        x = enter(x, self._axes)
        B, T, _ = x.shape
        y = self._attended(*self.projected(x))
        return summed_linear(y.transpose(1, 2).reshape(B, T, -1), self.proj, self._axes)

    def _attended(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """What queries (B, H, T, D) find among the keys and values (B, kv, T, D) of their rows."""
        context = self._axes.comm(CONTEXT)
        if self.theta is not None:
            positions = None
            if context:
                positions = self._axes.positions(q.shape[2] * context.ranks, q.device)
            q, k = rotated(q, self.theta, positions), rotated(k, self.theta, positions)
        if context:
            k, v = whole_row(k, v, context)
        if not self._again:
            return self._weighed(q, k, v)
        # There is no dropout, and so no state of a generator to go back to.
        out: Tensor = checkpoint(
            self._weighed, q, k, v, use_reentrant=False, preserve_rng_state=False
        )
        return out

    def _weighed(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Values (B, H, T, D), weighed by the scores of all that a query sees."""
        context, shared = self._axes.comm(CONTEXT), self.heads != self.kv_heads
        if context:
            return attend_to_row(q, k, v, context.rank, context.ranks)
        chosen = sdpa_kernel(_FASTEST_FIRST, set_priority=True) if q.is_cuda else nullcontext()
        with chosen:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=shared)

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of ``x``, shape (B, T, C): each (B, heads, T, D)."""
        B, T, _ = x.shape
        if self.fused:
            sizes = [heads * self.width for heads in (self.heads, self.kv_heads, self.kv_heads)]
            q, k, v = self.qkv(x).split(sizes, dim=-1)
        else:
            q, k, v = self.q(x), self.k(x), self.v(x)
        found = [one.view(B, T, -1, self.width).transpose(1, 2) for one in (q, k, v)]
        return found[0], found[1], found[2]


def summed_linear(x: Tensor, linear: nn.Linear, axes: Axes) -> Tensor:
    """``linear`` of ``x``, of which each rank has some columns: products summed, then the bias."""
    if axes.mesh.tensor == 1:
        out: Tensor = linear(x)
        return out
    total = leave(product(linear, x), axes)
    return total if linear.bias is None else total + linear.bias


def rotated(x: Tensor, theta: float, positions: Tensor | None = None) -> Tensor:
    """Rotary positions: pairs of channels (i, i + D/2) turned by position · ``theta``^(-2i/D).

    ``x`` has shape (B, H, T, D); ``positions``, shape (T,), are by default 0 to T - 1. Su et al.,
    "RoFormer" (arXiv 2104.09864), with the pairs of Llama's Hugging Face weights.
    """
    T, D = x.shape[-2:]
    if positions is None:
        cos, sin = _turns(T, D, theta, x.device)
    else:
        cos, sin = _turns_at(positions, D, theta)
    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return turned.to(x.dtype)


@lru_cache(maxsize=4)
def _turns(T: int, D: int, theta: float, device: torch.device) -> tuple[Tensor, Tensor]:
    return _turns_at(torch.arange(T, device=device), D, theta)


def _turns_at(positions: Tensor, D: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every angle, each of shape (T, D / 2)."""
    steps = torch.arange(0, D, 2, device=positions.device, dtype=torch.float32) / D
    angles = positions.float()[:, None] * theta**-steps
    return angles.cos(), angles.sin()
