"""GPT2Config: the dimensions of a GPT-2, and its named sizes."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steptime.errors import UsageError

if TYPE_CHECKING:
    from steptime.workloads.models import Transformer

_VOCABULARY_MULTIPLE = 128


@dataclass(frozen=True, kw_only=True)
class GPT2Config:
    """Dimensions of a GPT-2: L layers of H heads over C channels, T positions, V tokens."""

    layers: int
    heads: int
    embd: int
    context: int
    vocabulary: int

    def __post_init__(self) -> None:
        for field in ("layers", "heads", "embd", "context", "vocabulary"):
            if getattr(self, field) < 1:
                raise UsageError(f"--{field} is {getattr(self, field)}: it must be at least 1")
        if self.embd % self.heads:
            raise UsageError(f"--embd {self.embd} does not divide into --heads {self.heads}")

    @property
    def padded_vocabulary(self) -> int:
        """V rounded up to a multiple of 128, as llm.c and nanoGPT pad 50257 to 50304."""
        return -(-self.vocabulary // _VOCABULARY_MULTIPLE) * _VOCABULARY_MULTIPLE

    @property
    def parameters(self) -> int:
        """Number of parameters, the padding rows of the vocabulary included."""
        C, V, T, L = self.embd, self.padded_vocabulary, self.context, self.layers
        return V * C + T * C + L * (12 * C * C + 13 * C) + 2 * C

    def flops_per_token(self) -> float:
        """FLOP of forward and backward for one token at full context.

        6 a parameter that multiplies (position embeddings only add) and 12·L·C·T for attention,
        as PaLM counts (arXiv 2204.02311, appendix B).
        """
        multiplying = self.parameters - self.context * self.embd
        return 6.0 * multiplying + 12.0 * self.layers * self.embd * self.context


_LEARNING_RATES = {
    "gpt2-nano": 2e-3,
    "gpt2-micro": 1e-3,
    "gpt2-124M": 6e-4,
    "gpt2-355M": 3e-4,
    "gpt2-774M": 2.5e-4,
    "gpt2-1558M": 2e-4,
}
"""A peak learning rate that suits each size."""

SIZES = tuple(_LEARNING_RATES)
"""The sizes of GPT-2 that have a name, from small to large."""

NANO = SIZES[0]
"""The default size, which trains within minutes on a CPU."""


def gpt2_named(name: str) -> "Transformer":
    """The model of that name or file, which must be a GPT-2.

    Raises UsageError where there is no such model, or it is of another kind, which can only be
    simulated.
    """
    from steptime.workloads.models import Transformer, model_named

    model = model_named(name)
    like = model_named(NANO)
    if isinstance(model, Transformer) and isinstance(like, Transformer):
        blocks = (model.architecture, model.inner, model.kv_heads, model.experts)
        if blocks == (like.architecture, 4 * model.hidden, model.heads, 1) and not model.head_width:
            return model
    raise UsageError(
        f"'{name}' cannot be trained here, where models are of GPT-2's kind: choose "
        f"{', '.join(SIZES)}, or let steptime simulate {name} on a --cluster"
    )


def gpt2_of_size(size: str) -> "Transformer":
    """The GPT-2 of a size alone, as nano; raises UsageError, naming all sizes, for another."""
    try:
        return gpt2_named(f"gpt2-{size}")
    except UsageError:
        sizes = ", ".join(name.removeprefix("gpt2-") for name in SIZES)
        raise UsageError(f"there is no model '{size}'; choose from {sizes}") from None


def name_of(config: GPT2Config) -> str:
    """The name of the size with these blocks, or else their number and width: ``gpt2-2×64``."""
    blocks = (config.layers, config.heads, config.embd)
    named = (
        name for name, own in _sizes().items() if blocks == (own.layers, own.heads, own.hidden)
    )
    return next(named, f"gpt2-{config.layers}×{config.embd}")


def suitable_learning_rate(config: GPT2Config) -> float:
    """The peak learning rate of the named size with the nearest number of weights in blocks."""

    def distance(size: "Transformer") -> float:
        return abs(math.log(size.layers * size.hidden**2 / (config.layers * config.embd**2)))

    sizes = _sizes()
    return _LEARNING_RATES[min(sizes, key=lambda name: distance(sizes[name]))]


def _sizes() -> "dict[str, Transformer]":
    return {name: gpt2_named(name) for name in SIZES}
