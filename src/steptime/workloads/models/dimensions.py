"""A model by its dimensions: a named one with some of them changed, or a family with all of them.

``gpt --layers 24 --hidden 2048 --heads 16`` is a model of the family of that base, and
``llama3-8B --layers 16`` a named model with half of its layers.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from steptime.errors import UsageError
from steptime.workloads.models.family import Base, Model, bases
from steptime.workloads.models.named import model_named
from steptime.workloads.models.transformer import Transformer

_FIELDS = {"ffn": "inner"}
_NEEDED = ("layers", "hidden", "heads")


def model_by_dimensions(name: str, given: Mapping[str, int], tokens: int | None = None) -> Model:
    """The model of a name or file with the dimensions ``given``, or that of a family's base.

    A model of a base has positions for ``tokens``, where so many are asked for. Raises UsageError
    as ``model_named`` and ``with_dimensions`` do, and where a base lacks dimensions.
    """
    base = bases().get(name)
    if base is None:
        return with_dimensions(model_named(name), given)
    needed = (*_NEEDED, *(("ffn",) if base.architecture.gated else ()))
    missing = [f"--{one.replace('_', '-')}" for one in needed if one not in given]
    if missing:
        raise UsageError(
            f"{name} is a family of models, and nothing says all dimensions of the one that is "
            f"meant: give {', '.join(missing)} too"
        )
    return _of_base(name, base, given, tokens)


def with_dimensions(model: Model, given: Mapping[str, int]) -> Model:
    """The model with other dimensions, by the names of DIMENSIONS.

    A model whose heads each have their own keys keeps that, and so does an MLP that is 4 times as
    wide as the model. Raises UsageError where they do not fit together, the model is no
    transformer, or nothing says how wide another MLP becomes.
    """
    if not given:
        return model
    first = next(iter(given)).replace("_", "-")
    if not isinstance(model, Transformer):
        raise UsageError(
            f"--{first} is a dimension of transformers, and {model.name} is {model.title}: leave "
            "it out"
        )
    changes: dict[str, Any] = {_FIELDS.get(name, name): size for name, size in given.items()}
    hidden, heads = changes.get("hidden", model.hidden), changes.get("heads", model.heads)
    if "inner" not in changes and hidden != model.hidden:
        if model.inner != 4 * model.hidden:
            raise UsageError(
                f"the MLP of {model.name} is {model.inner:,} wide at --hidden {model.hidden:,}, "
                f"and nothing says how wide at {hidden:,}: give --ffn too"
            )
        changes["inner"] = 4 * hidden
    if "kv_heads" not in changes and model.kv_heads == model.heads:
        changes["kv_heads"] = heads
    layers = changes.pop("layers", model.layers)
    return replace(model.with_layers(layers), **changes)


def _of_base(name: str, base: Base, given: Mapping[str, int], tokens: int | None) -> Transformer:
    """The model of a family whose dimensions are all given."""
    return Transformer(
        name=name,
        layers=given["layers"],
        hidden=given["hidden"],
        heads=given["heads"],
        kv_heads=given.get("kv_heads", 0),
        inner=given.get("ffn", 0),
        vocabulary=given.get("vocabulary", base.vocabulary),
        context=tokens or base.context,
        architecture=base.architecture,
        title=base.title,
        source="the dimensions given",
    )
