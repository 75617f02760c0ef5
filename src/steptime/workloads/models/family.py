"""Families: models that go by a name, and how they are found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeAlias

from steptime.errors import UsageError
from steptime.workloads.models.network import Network
from steptime.workloads.models.transformer import Transformer

Model: TypeAlias = Transformer | Network
"""Units with tensors, FLOP and activations; data parallelism takes any of them."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """The models of one file of ``families``, from small to large: how each is made, by its name.

    ``also``: other names that they go by.
    """

    models: Mapping[str, Callable[[], Model]]
    also: Mapping[str, str] = field(default_factory=dict)


@cache
def families() -> tuple[Family, ...]:
    """All families, by the names of their files."""
    package = import_module("steptime.workloads.models.families")
    names = sorted(found.name for found in iter_modules(package.__path__))
    return tuple(import_module(f"{package.__name__}.{name}").FAMILY for name in names)


def model_names() -> tuple[str, ...]:
    """The names of all models, family by family and from small to large."""
    return tuple(name for family in families() for name in family.models)


def model_named(name: str) -> Model:
    """The model of that name; raises UsageError, naming all there are, where there is none."""
    for family in families():
        known = family.also.get(name, name)
        if known in family.models:
            return family.models[known]()
    raise UsageError(f"there is no model {name!r}: choose one of {', '.join(model_names())}")


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
