"""Model files: TOML that tells a transformer by its family and its dimensions.

.. code-block:: toml

    family = "llama"
    layers = 32
    hidden = 4096
    heads = 32
    context = 4096
    vocabulary = 32000

Other keys are the fields of Transformer and of Architecture, ``latent`` a table of Latent's. A
table ``models`` makes it a series: models by their names, with what each has beside the rest.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from reprlib import repr as brief  # a value may fill the file
from typing import Any

from steptime.errors import UsageError
from steptime.files import parsed_toml
from steptime.section import Section
from steptime.workloads.models.family import Family, Model, families
from steptime.workloads.models.transformer import Architecture, Latent, Transformer

_REQUIRED = ("layers", "hidden", "heads", "context", "vocabulary")


def read_models(text: str, file: str) -> Family:
    """The models of a TOML file; each is checked when it is made.

    Raises ValueError where it is no TOML, and UsageError when a model is made whose description is
    wrong.
    """
    table = parsed_toml(text)
    series = table.pop("models", {Path(file).stem: {}})
    if not isinstance(series, dict) or not all(isinstance(one, dict) for one in series.values()):
        raise UsageError(f"{file}: models must be a table of tables, one a model, by its name")
    also = {
        f"{other}": name
        for name, own in series.items()
        for other in _list(own.pop("also", []), file)
    }
    models = {name: partial(_transformer, table | own, file, name) for name, own in series.items()}
    return Family(models=models, also=also)


def read_model(text: str, path: Path) -> Model:
    """The model of a user's file; raises UsageError as read_models and where it has several."""
    models = read_models(text, str(path)).models
    if len(models) != 1:
        raise UsageError(f"{path} has {len(models)} models: write one in a file")
    (make,) = models.values()
    return make()


def _list(value: object, file: str) -> list[object]:
    if not isinstance(value, list):
        raise UsageError(f"{file}: also is {value!r}: it must be a list of names")
    return value


def _transformer(table: Mapping[str, Any], file: str, name: str) -> Transformer:
    section = Section(table, file)
    known = {name: of.architecture for name, of in families().items() if of.architecture}
    kind = known[section.choice("family", tuple(known))]
    flags = {
        flag.name: section.flag(flag.name, default=getattr(kind, flag.name))
        for flag in fields(Architecture)
    }
    sizes = [size.name for size in fields(Transformer) if size.type is int]
    found: dict[str, Any] = {
        size: section.count(size) for size in sizes if size in _REQUIRED or section.has(size)
    }
    if section.has("whole_layers"):
        found["whole_layers"] = _numbers(section, "whole_layers")
    latent = _latent(section.section("latent")) if section.has("latent") else None
    title = section.text("title", "a transformer")
    source = section.text("source", file)
    section.finish()
    architecture = replace(kind, **flags)
    try:
        return Transformer(
            name=name, title=title, source=source, architecture=architecture, latent=latent, **found
        )
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None


def _numbers(section: Section, key: str) -> tuple[int, ...]:
    """A list of whole numbers; raises UsageError where it is none."""
    found = section.raw(key)
    if not isinstance(found, list) or not all(type(one) is int for one in found):
        section.refuse(key, f"is {brief(found)}: it must be a list of numbers of layers, as [0, 6]")
    return tuple(found)


def _latent(section: Section) -> Latent:
    rank = section.count("query_rank") if section.has("query_rank") else 0
    others = [field.name for field in fields(Latent) if field.name != "query_rank"]
    return Latent(query_rank=rank, **{name: section.count(name) for name in others})
