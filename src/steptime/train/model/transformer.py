"""GPT-2 and Llama: pre-norm blocks between an embedding and a head; or a part of them.

Radford et al., "Language Models are Unsupervised Multitask Learners" (2019); Touvron et al.,
"Llama 2" (arXiv 2307.09288). Parameters have the names of ``workloads.models``. Shapes: B rows, T
positions, C channels, V tokens.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from steptime.train.model.attention import Attention
from steptime.train.model.ends import Embedding, Head
from steptime.train.model.mixture import Mixture
from steptime.train.model.mlp import MLP
from steptime.train.model.norm import norm
from steptime.train.parallel.axes import ALONE, Axes
from steptime.train.parallel.shard import Shard, shard_of
from steptime.workloads.mesh import TENSOR
from steptime.workloads.models import Transformer
from steptime.workloads.segment import Recompute
from steptime.workloads.tensor import laid_out


class Block(nn.Module):
    """Attention and MLP or experts, each behind a norm and added to the residual stream.

    ``recompute``: what backward computes anew: ``selective``, attention's scores. That of ``full``,
    the whole block, is of those who run it.
    """

    def __init__(
        self, model: Transformer, axes: Axes = ALONE, *, recompute: Recompute = "none"
    ) -> None:
        super().__init__()
        self.ln1 = norm(model)
        self.attention = Attention(model, axes, again=recompute == "selective")
        self.ln2 = norm(model)
        self.mlp = (Mixture if model.experts > 1 else MLP)(model, axes)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (B, T, C) in and out."""
        x = x + self.attention(self.ln1(x))
        out: Tensor = x + self.mlp(self.ln2(x))
        return out


class Decoder(nn.Module):
    """A whole model: what one rank computes, or tensor-parallel ranks together.

    ``generator``: its weights are drawn from it as GPT-2's paper initialises them.
    """

    def __init__(self, model: Transformer, generator: torch.Generator, axes: Axes = ALONE) -> None:
        super().__init__()
        self.config = model
        self.embedding = Embedding(model, axes)
        self.blocks = nn.ModuleList(Block(model, axes) for _ in range(model.layers))
        self.head = Head(model, axes)
        initialise(self, model, generator, axes)

    def units(self) -> Sequence[nn.Module]:
        """The modules that forward runs one after the other."""
        return [self.embedding, *self.blocks, self.head]

    def hidden(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The residual stream after the last block, (B, T, C), of ``tokens``, (B, T); the table."""
        x, table = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return x, table

    def logits(self, tokens: Tensor) -> Tensor:
        """Scores of every token at every position, shape (B, T, V), fp32."""
        return self.head.logits(*self.hidden(tokens))

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean loss in nats a token; both arguments have shape (B, T), int64."""
        loss: Tensor = self.head(*self.hidden(tokens), targets)
        return loss


def initialise(
    module: nn.Module, model: Transformer, generator: torch.Generator, axes: Axes = ALONE
) -> None:
    """Fill a rank's parameters with their part of the initial weights of the whole model.

    Every rank draws all tensors in the same order, whatever it holds, so that the weights depend
    on the generator alone.
    """
    residual = 0.02 / math.sqrt(2 * model.layers)

    def drawn(name: str, shape: tuple[int, ...]) -> Tensor | None:
        if len(shape) == 2:
            std = residual if name.endswith("proj.weight") else 0.02
            return torch.empty(shape).normal_(0.0, std, generator=generator)
        return torch.zeros(shape) if name.endswith("bias") else None

    fill_parts(module, model, axes, drawn)


@torch.no_grad()
def fill_parts(
    module: nn.Module,
    model: Transformer,
    axes: Axes,
    whole_of: Callable[[str, tuple[int, ...]], Tensor | None],
) -> None:
    """Fill a rank's parameters with their part of the whole model's tensors.

    ``whole_of`` is asked for each tensor, by its name and its shape with the padding that a rank
    alone has; what is None stays as it is. Padding beyond that is zero.
    """
    named = dict(module.named_parameters())
    laid = laid_out(model, axes.mesh.tensor)
    for unit, usual in zip(laid.units, model.padded().units, strict=True):
        for tensor, plain in zip(unit.tensors, usual.tensors, strict=True):
            found = whole_of(tensor.name, plain.shape)
            names = _names(tensor.name, named)
            if found is None or not names:
                continue
            values = torch.zeros(tensor.shape, dtype=found.dtype)
            values[: plain.shape[0]] = found
            own = shard_of(laid, tensor, axes.mesh.tensor, axes.at[TENSOR])
            for name in names:
                named[name].copy_(part(values, own))


def _names(name: str, named: "dict[str, nn.Parameter]") -> list[str]:
    """The parameters that hold a tensor of the model: none, one, or the copies of a tied table."""
    copies = [name, "head.wte"] if name == "embedding.wte" else [name]
    return [one for one in copies if one in named]


def part(values: Tensor, shard: Shard) -> Tensor:
    """A rank's part of a whole tensor."""
    return torch.cat([values[box] for box in shard.boxes], dim=shard.dim)


def compile_units(
    model: Decoder, compiled: Callable[..., Callable[..., Tensor]] = torch.compile
) -> None:
    """Compile each unit on its own, so that gradients leave backward unit by unit.

    One compiled graph of the whole model would hand out all gradients at its end, and nothing of
    their communication could hide behind backward. Forward hooks stay outside the compiled code.
    """
    for unit in model.units()[1:]:  # the embedding is two look-ups: nothing to fuse
        unit.forward = compiled(unit.forward, dynamic=False)
