"""Families: what the models of one kind have in common, one file of ``families`` each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from steptime.discovery import modules_of
from steptime.errors import UsageError
from steptime.section import Section
from steptime.workloads.models.network import Network
from steptime.workloads.models.transformer import Architecture, Transformer

Model: TypeAlias = Transformer | Network
"""Units with tensors, FLOP and activations; data parallelism takes any of them."""

Settings: TypeAlias = dict[str, Any]
"""Arguments of a Transformer, but for its name, title and source."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """What one file of ``families`` tells of a kind of model.

    ``architecture``: of its transformers, which files describe. ``model_types``: those that a
    Hugging Face configuration may name, and what reads the settings of such a model in one.
    ``models``: those that are code, from small to large, and ``also`` other names of theirs.
    """

    architecture: Architecture | None = None
    model_types: Mapping[str, Callable[[Section], Settings]] = field(default_factory=dict)
    models: Mapping[str, Callable[[], Model]] = field(default_factory=dict)
    also: Mapping[str, str] = field(default_factory=dict)


@cache
def families() -> Mapping[str, Family]:
    """All families by the names of their files, in alphabetical order."""
    modules = modules_of("steptime.workloads.models.families")
    return {module.__name__.rpartition(".")[2]: module.FAMILY for module in modules}


def transformer_of(model: Model) -> Transformer:
    """The model itself; raises UsageError where it is no transformer.

    What cuts layers and heads, as hybrid parallelism does, takes no other.
    """
    if not isinstance(model, Transformer):
        raise UsageError(
            f"{model.name} is {model.title} and has no heads or blocks to cut: choose data "
            "parallelism alone, or a transformer"
        )
    return model
