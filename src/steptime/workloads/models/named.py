"""Models by name or by file."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from steptime.errors import UsageError
from steptime.files import bounded_text, reading
from steptime.nearest import did_you_mean
from steptime.workloads.models.family import Family, Model, bases, families
from steptime.workloads.models.hugging_face import read_config
from steptime.workloads.models.model_file import read_model, read_models

_PRESETS = files("steptime.workloads.models") / "presets"
_SUFFIXES = (".toml", ".json")
_CONFIG = "config.json"


def model_named(name: str | Path) -> Model:
    """The model of that name, or the one in the file at that path.

    The file is TOML as those of ``presets`` or, where its name does not end in .toml, the
    configuration of a Hugging Face model or the folder that holds one as ``config.json``. Raises
    UsageError where there is no such model or its file is wrong.
    """
    if isinstance(name, Path) or "/" in name or is_model_file(name):
        return _of_file(Path(name))
    for series in _series().values():
        known = series.also.get(name, name)
        if known in series.models:
            return series.models[known]()
    if name in bases():
        raise UsageError(
            f"{name} is a family of models and no model: name a model, or where a step is asked "
            "for give dimensions too, as --layers 24 --hidden 2048 --heads 16"
        )
    others = (other for series in _series().values() for other in series.also)
    names = [*model_names(), *bases(), *others]
    mend = did_you_mean(name, names) or f"choose one of {', '.join(model_names())}"
    raise UsageError(f"there is no model {name!r} (a file's name ends in .toml or .json): {mend}")


def is_model_file(text: str) -> bool:
    """Whether a text is the path of a model's file rather than a name."""
    path = Path(text)
    return path.suffix in _SUFFIXES or (path / _CONFIG).is_file()


def model_names() -> tuple[str, ...]:
    """The names of all models, series by series and from small to large."""
    return tuple(name for series in _series().values() for name in series.models)


@cache
def _series() -> Mapping[str, Family]:
    """The shipped models: a series is a file of presets, or a family defined in code."""
    described = {
        file.name.removesuffix(".toml"): read_models(file.read_text(), file.name)
        for file in _PRESETS.iterdir()
    }
    coded = {name: family for name, family in families().items() if family.models}
    return dict(sorted((coded | described).items()))


def _of_file(path: Path) -> Model:
    if path.is_dir():
        path /= _CONFIG
    if path.suffix not in _SUFFIXES and not path.exists():
        raise UsageError(
            f"there is no file or folder {path}: models are described by files of this machine, "
            "and nothing is fetched"
        )
    text = bounded_text(path, "model file")
    with reading(path, "model file"):
        return read_model(text, path) if path.suffix == ".toml" else read_config(text, path)
