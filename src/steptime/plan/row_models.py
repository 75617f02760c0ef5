"""The transformer that a measured row trained."""

import re
from dataclasses import replace
from functools import cache
from typing import Any

from steptime.errors import UsageError
from steptime.plan.recipes import Recipe
from steptime.plan.rows import Row
from steptime.workloads.models import Architecture, Transformer, model_named, model_names
from steptime.workloads.models.families.llama import LLAMA

_LLAMAS = re.compile(r"llama|qwen|mistral|intern|baichuan|\byi\b|deepseek|gemma", re.I)
_NEMOTRON = re.compile(r"nemotron", re.I)
_EXPERTS = re.compile(
    r"moe|mixtral|\d+x\d+b|deepseek[-_ ]?v|[-_ ]a\d+b|gpt[-_ ]?oss|grok|kimi|dbrx", re.I
)
_OTHERS = {
    "trains a small part of its parameters (LoRA)": r"lora|peft",
    "is no decoder of text": r"bert|\bt5\b|diffusion|flux|resnet|dlrm|unet|retina|rnnt|\bvit\b",
    "mixes blocks of state spaces with attention": r"mamba|nemotron[-_ ]?h|jamba|hybrid",
    "sees images too": r"\bvlm?\b|[-_ ]vl\b|vision|llava",
}
"""Why a model is not expressed, by what its name has."""

_PADDED = 128


def model_of(row: Row, recipe: Recipe) -> Transformer | str:
    """The transformer of a row, or why there is none.

    What the row lacks is that of the shipped model of its name. An MLP with a gate and a head of
    its own are told by the parameters, where those are stated, else by the name of the model or
    the recipe of its source.
    """
    for why, words in _OTHERS.items():
        if re.search(words, row.model, re.I):
            return f"{row.model} {why}"
    if not row.seq:
        return "seq unstated"
    known = _known(row.model)
    if (row.ep or 1) > 1 or _EXPERTS.search(row.model):
        return _with_experts(row, known)
    found = {
        "hidden": row.hidden or (known.hidden if known else None),
        "layers": row.layers or (known.layers if known else None),
        "heads": row.heads or (known.heads if known else None),
    }
    missing = [name for name, value in found.items() if not value]
    if missing:
        return f"{', '.join(missing)} unstated, and {row.model or 'the model'} is not one of ours"
    hidden, heads = found["hidden"] or 0, found["heads"] or 0
    vocabulary = row.vocab or (known.vocabulary if known else recipe.vocabulary)
    try:
        return _made(
            name=row.model or "unnamed",
            layers=found["layers"] or 0,
            hidden=hidden,
            heads=heads,
            head_width=0 if hidden % heads == 0 else -(-hidden // heads),
            kv_heads=row.kv_heads or (known.kv_heads if known else heads),
            inner=row.ffn or (known.inner if known else 0),
            context=row.seq,
            vocabulary=_divisible(vocabulary, row.tp or 1),
            architecture=_architecture(row, recipe),
            params=row.params,
        )
    except UsageError as error:
        return str(error)


@cache
def _made(*, params: float | None, **settings: Any) -> Transformer:
    """One object for all rows of a model; of its variants the one nearest to the parameters."""
    made = Transformer(**settings)
    return _by_parameters(made, params) if params else made


def _divisible(vocabulary: int, tensor: int) -> int:
    """The vocabulary that tensor-parallel ranks divide, padded as Megatron-LM does."""
    multiple = _PADDED * tensor
    return vocabulary if vocabulary % tensor == 0 else -(-vocabulary // multiple) * multiple


def _architecture(row: Row, recipe: Recipe) -> Architecture:
    if _NEMOTRON.search(row.model):
        return replace(LLAMA, gated=False)
    return LLAMA if _LLAMAS.search(row.model) else recipe.architecture


def _by_parameters(made: Transformer, params: float) -> Transformer:
    """The variant, gated or not and tied or not, whose parameters are nearest to those stated."""
    kind = made.architecture
    variants = [
        replace(made, architecture=replace(kind, gated=gated, tied=tied))
        for gated in (kind.gated, not kind.gated)
        for tied in (kind.tied, not kind.tied)
    ]
    return min(variants, key=lambda one: abs(one.parameters - params))


def _with_experts(row: Row, known: Transformer | None) -> Transformer | str:
    if known is None or known.experts == 1:
        return f"the experts of {row.model} are unstated, and it is not one of ours by its name"
    layers = row.layers or known.layers
    return replace(known.with_layers(layers), context=row.seq or known.context)


def _bare(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


@cache
def _known(name: str) -> Transformer | None:
    """The shipped transformer whose name, without punctuation, is the longest in a row's."""
    bare = _bare(name)
    fitting = [one for one in model_names() if _bare(one) and _bare(one) in bare]
    if not fitting:
        return None
    model = model_named(max(fitting, key=len))
    return model if isinstance(model, Transformer) else None
