"""GPT-2 as published: pre-norm blocks, learned positions, the head tied to the embedding.

Radford et al., "Language Models are Unsupervised Multitask Learners" (2019). Shapes: B rows,
T positions, C channels, H heads, V tokens.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steptime.train.config import GPT2Config


class LayerNorm(nn.Module):
    """Layer normalisation in fp32, whatever the dtype of its input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension of ``x``, shape (B, T, C)."""
        weight, bias = self.weight.float(), self.bias.float()
        return F.layer_norm(x.float(), weight.shape, weight, bias).to(x.dtype)


class Attention(nn.Module):
    """Causal self-attention; the softmax runs in fp32 inside the fused kernel."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.embd, 3 * config.embd)
        self.proj = nn.Linear(config.embd, config.embd)

    def forward(self, x: Tensor) -> Tensor:
        """Attend from every position to itself and all before it, shape (B, T, C)."""
        B, T, C = x.shape
        qkv = self.qkv(x).view(B, T, 3, self.heads, C // self.heads)  # (B, T, 3, H, C/H)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, H, T, C/H)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, C/H)
        out: Tensor = self.proj(y.transpose(1, 2).reshape(B, T, C))  # (B, T, C)
        return out


class MLP(nn.Module):
    """Two linear layers with GELU (tanh form) between them."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.fc = nn.Linear(config.embd, 4 * config.embd)
        self.proj = nn.Linear(4 * config.embd, config.embd)

    def forward(self, x: Tensor) -> Tensor:
        """Map each position on its own, shape (B, T, C)."""
        out: Tensor = self.proj(F.gelu(self.fc(x), approximate="tanh"))
        return out


class Block(nn.Module):
    """Attention and MLP, each behind a layer norm and added to the residual stream."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.ln1 = LayerNorm(config.embd)
        self.attention = Attention(config)
        self.ln2 = LayerNorm(config.embd)
        self.mlp = MLP(config)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (B, T, C) in and out."""
        x = x + self.attention(self.ln1(x))
        out: Tensor = x + self.mlp(self.ln2(x))
        return out


class _TiedTable(torch.autograd.Function):
    """Rows of a table, and the table itself for a second use whose gradient is dense.

    Left to autograd, the rows' gradient would be a second table, zero but for those rows, and the
    sum of both a third. Here backward adds the rows into the dense gradient in place.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(rows)
        return F.embedding(rows, table), table.view_as(table)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        of_rows, of_table = gradients
        (rows,) = ctx.saved_tensors
        of_table.index_add_(0, rows.flatten(), of_rows.flatten(0, -2).to(of_table.dtype))
        return of_table, None


class Embedding(nn.Module):
    """Token and position embeddings, added."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.wte = nn.Parameter(torch.empty(config.padded_vocabulary, config.embd))
        self.wpe = nn.Parameter(torch.empty(config.context, config.embd))

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Embed ``tokens``, shape (B, T): (B, T, C), and the table (Vp, C) for the head."""
        rows, table = _TiedTable.apply(self.wte, tokens)  # type: ignore[no-untyped-call]
        return rows + self.wpe[: tokens.shape[1]], table


class Head(nn.Module):
    """Final layer norm, logits over the vocabulary, mean cross-entropy in fp32."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.vocabulary = config.vocabulary
        self.ln = LayerNorm(config.embd)

    def logits(self, x: Tensor, wte: Tensor) -> Tensor:
        """Scores of the real tokens, without the padding of the vocabulary, in fp32."""
        return F.linear(self.ln(x), wte)[..., : self.vocabulary].float()  # (B, T, V)

    def forward(self, x: Tensor, wte: Tensor, targets: Tensor) -> Tensor:
        """Loss in nats a token of ``x``, shape (B, T, C), against ``targets``, shape (B, T)."""
        return F.cross_entropy(self.logits(x, wte).flatten(0, 1), targets.flatten())


class GPT2(nn.Module):
    """A GPT-2 with weights drawn from ``generator`` as the paper initialises them."""

    def __init__(self, config: GPT2Config, generator: torch.Generator) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.head = Head(config)
        residual = 0.02 / math.sqrt(2 * config.layers)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if parameter.dim() == 2:
                    std = residual if name.endswith("proj.weight") else 0.02
                    parameter.normal_(0.0, std, generator=generator)
                elif name.endswith("bias"):
                    parameter.zero_()

    def units(self) -> Sequence[nn.Module]:
        """The modules that forward runs one after the other."""
        return [self.embedding, *self.blocks, self.head]

    def hidden(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The residual stream after the last block, (B, T, C), of ``tokens``, (B, T); the table."""
        x, wte = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return x, wte

    def logits(self, tokens: Tensor) -> Tensor:
        """Scores of every token at every position, shape (B, T, V), fp32."""
        return self.head.logits(*self.hidden(tokens))

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean loss in nats a token; both arguments have shape (B, T), int64."""
        loss: Tensor = self.head(*self.hidden(tokens), targets)
        return loss


def compile_units(model: GPT2) -> None:
    """Compile each unit on its own, so that gradients leave backward unit by unit.

    One compiled graph of the whole model would hand out all gradients at its end, and nothing of
    their communication could hide behind backward. Forward hooks stay outside the compiled code.
    """
    for unit in model.units()[1:]:  # the embedding is two look-ups: nothing to fuse
        unit.forward = torch.compile(unit.forward, dynamic=False)
