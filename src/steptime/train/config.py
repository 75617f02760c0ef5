"""The models that can be trained, by name, and the learning rates that suit them."""

import math
from dataclasses import replace

from steptime.errors import UsageError
from steptime.nearest import mend
from steptime.workloads.models import Transformer, model_named

NANO = "gpt2-nano"
"""The default model, which trains within minutes on a CPU."""

SIZES = (NANO, "gpt2-micro", "gpt2-124M", "gpt2-355M", "gpt2-774M", "gpt2-1558M")
"""The sizes of GPT-2 that have a name, from small to large."""

_LLAMAS = ("llama-nano", "llama-nano-moe")

_LEARNING_RATES = (2e-3, 1e-3, 6e-4, 3e-4, 2.5e-4, 2e-4)
"""A peak learning rate that suits each of these sizes."""


def trainable(name: str) -> Transformer:
    """The model of that name or file, which must be of a kind that ``train.model`` builds.

    Raises UsageError where there is no such model, or it is of another kind, which can only be
    simulated.
    """
    model = model_named(name)
    if isinstance(model, Transformer) and not (why := untrained(model)):
        return model
    because = f": {why}" if isinstance(model, Transformer) else ""
    raise UsageError(
        f"'{name}' cannot be trained here, where models are of GPT-2's or Llama's kind{because}; "
        f"choose {', '.join(SIZES[:3])} or llama-nano, or let steptime simulate {name} on a "
        "--cluster"
    )


def untrained(model: Transformer) -> str:
    """What of a transformer no training here has, in a few words; empty where there is nothing."""
    kind = model.architecture
    found = {
        "latent attention": model.latent is not None,
        "a window of attention": bool(model.window),
        "masked tokens": kind.masked,
        "normalised queries": kind.qk_norm or kind.qk_norm_whole,
        "attention sinks": kind.sinks,
        "another activation, factors or positions": kind.own_arithmetic,
        "norms behind each half of a block": kind.post_norm,
        "biases of single projections": kind.qkv_biased or kind.proj_biased or kind.mlp_biased,
        "a balanced or a shared expert": kind.router_biased or bool(model.shared_inner),
        "layers without experts among those with": bool(model.dense_layers),
    }
    return next((what for what, has in found.items() if has), "")


def gpt2_of_size(size: str) -> Transformer:
    """The GPT-2 of a size alone, as nano; raises UsageError, naming all sizes, for another."""
    sizes = [name.removeprefix("gpt2-") for name in SIZES]
    try:
        return trainable(f"gpt2-{size}")
    except UsageError:
        raise UsageError(f"there is no model '{size}'; {mend(size, sizes)}") from None


def gpt2(*, layers: int, heads: int, hidden: int, context: int, vocabulary: int) -> Transformer:
    """A GPT-2 of these dimensions, named by them."""
    model = Transformer(
        name="gpt2",
        layers=layers,
        hidden=hidden,
        heads=heads,
        context=context,
        vocabulary=vocabulary,
    )
    return named_by_blocks(model)


def named_by_blocks(model: Transformer) -> Transformer:
    """The model by the name of that with these blocks, or else their number and width.

    As ``gpt2-2×64``; tokens and positions are of the text that it is trained on, and no matter.
    """
    family = "gpt2" if model.architecture.learned_positions else "llama"
    named = (name for name in (*SIZES, *_LLAMAS) if _same(_of(name), model))
    return replace(model, name=next(named, f"{family}-{model.layers}×{model.hidden}"))


def suitable_learning_rate(model: Transformer) -> float:
    """The peak learning rate of the named size with the nearest number of weights in blocks."""

    def distance(size: Transformer) -> float:
        return abs(math.log(size.layers * size.hidden**2 / (model.layers * model.hidden**2)))

    rates = dict(zip(SIZES, _LEARNING_RATES, strict=True))
    return rates[min(rates, key=lambda name: distance(_of(name)))]


def _of(name: str) -> Transformer:
    model = model_named(name)
    assert isinstance(model, Transformer)  # noqa: S101 - the names are those of SIZES, or its own
    return model


def _same(one: Transformer, other: Transformer) -> bool:
    """Whether they are alike but for the rows and tokens that they are trained on."""
    return _blocks(one) == _blocks(other)


def _blocks(model: Transformer) -> dict[str, object]:
    left = ("context", "vocabulary")
    sizes = {name: size for name, size in model.dimensions.items() if name not in left}
    return sizes | {"architecture": model.architecture}
