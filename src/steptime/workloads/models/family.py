"""Family: the models of one kind, one file of ``families`` each."""

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
"""A model with units, tensors, FLOP and activations; data parallelism takes any."""

Settings: TypeAlias = dict[str, Any]
"""Arguments of a Transformer, except its name, title and source."""


@dataclass(frozen=True, kw_only=True)
class Base:
    """What a family's models have where only their other dimensions are given.

    ``name``: what stands for a model's name then.
    """

    name: str
    title: str
    architecture: Architecture
    vocabulary: int
    context: int


@dataclass(frozen=True, kw_only=True)
class Family:
    """A kind of model, defined by one file of ``families``.

    ``architecture``: of its transformers, which files describe. ``model_types``: the ``model_type``
    values of Hugging Face configurations, each with the function that reads its settings.
    ``models``: those defined in code, from small to large, and ``also`` other names of theirs.
    ``base``: what its models have that are told by their dimensions alone.
    """

    architecture: Architecture | None = None
    model_types: Mapping[str, Callable[[Section], Settings]] = field(default_factory=dict)
    models: Mapping[str, Callable[[], Model]] = field(default_factory=dict)
    also: Mapping[str, str] = field(default_factory=dict)
    base: Base | None = None


@cache
def families() -> Mapping[str, Family]:
    """All families by the names of their files, in alphabetical order."""
    modules = modules_of("steptime.workloads.models.families")
    return {module.__name__.rpartition(".")[2]: module.FAMILY for module in modules}


def bases() -> Mapping[str, Base]:
    """The bases of families by their names."""
    return {family.base.name: family.base for family in families().values() if family.base}


def transformer_of(model: Model) -> Transformer:
    """The model as a Transformer; raises UsageError where it is none.

    Hybrid parallelism, which divides layers and heads, takes no other.
    """
    if not isinstance(model, Transformer):
        raise UsageError(
            f"{model.name} is {model.title} and has no heads or blocks to cut: choose data "
            "parallelism alone, or a transformer"
        )
    return model
