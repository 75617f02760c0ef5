"""The dimensions of a GPT-2 and the sizes it is known in."""

import math
from dataclasses import dataclass

from steptime.errors import UsageError
from steptime.workloads.models import model_named, transformer_of

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


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A size of GPT-2 that has a name, and a peak learning rate that suits it."""

    layers: int
    heads: int
    embd: int
    context: int
    learning_rate: float


def _preset(size: str, learning_rate: float) -> Preset:
    model = transformer_of(model_named(f"gpt2-{size}"))
    return Preset(
        layers=model.layers,
        heads=model.heads,
        embd=model.hidden,
        context=model.context,
        learning_rate=learning_rate,
    )


PRESETS = {
    size: _preset(size, learning_rate)
    for size, learning_rate in (
        ("nano", 2e-3),
        ("micro", 1e-3),
        ("124M", 6e-4),
        ("350M", 3e-4),
        ("774M", 2.5e-4),
        ("1.5B", 2e-4),
    )
}
"""The sizes of GPT-2 by the names that come behind ``gpt2-``."""


def name_of(config: GPT2Config) -> str:
    """The name of the size with these blocks, or their number and width: ``2×64``."""
    for name, preset in PRESETS.items():
        if (preset.layers, preset.heads, preset.embd) == (config.layers, config.heads, config.embd):
            return name
    return f"{config.layers}×{config.embd}"


def suitable_learning_rate(config: GPT2Config) -> float:
    """The peak learning rate of the named size whose blocks hold the nearest number of weights."""

    def distance(preset: Preset) -> float:
        return abs(math.log(preset.layers * preset.embd**2 / (config.layers * config.embd**2)))

    return min(PRESETS.values(), key=distance).learning_rate
