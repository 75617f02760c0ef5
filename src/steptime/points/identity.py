"""What a point is, as a hash: of everything that its result depends on, this code included."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from inspect import getsource
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import cloudpickle
import numpy as np

from steptime.version import __version__

_LEAVES = (type(None), bool, int, float, complex, str, bytes)


@cache
def steptime_source() -> str:
    """A hash of steptime's own version and source: another may give other results."""
    found = sha256(__version__.encode())
    for path, content in sorted(_files(files("steptime"), "")):
        found.update(f"{path} {len(content)}\n".encode() + content)
    return found.hexdigest()


def _files(folder: Traversable, within: str) -> Iterator[tuple[str, bytes]]:
    for one in folder.iterdir():
        name = f"{within}/{one.name}"
        if one.is_dir() and one.name != "__pycache__":
            yield from _files(one, name)
        elif one.name.endswith((".py", ".toml", ".csv")):
            yield name, one.read_bytes()


def digest(value: object) -> str:
    """A hash of any value, the same in every process.

    Dataclasses count by their fields, arrays by their type, shape and content, functions by their
    name and source, or where they are defined within another by their code and what they hold of
    it. What is none of these counts as pickle writes it: at worst that differs from run to run,
    and the point is worked out again.
    """
    found = sha256()
    for part in _parts(value):
        found.update(b"%d:" % len(part) + part)
    return found.hexdigest()


def with_files(value: object) -> object:
    """A value beside the state of the file or folder that it names, where it is a text or a path.

    The state is the size of each file and when it was written; of a folder those right within.
    """
    if not isinstance(value, str | Path) or not str(value):
        return value
    try:
        path = Path(value)
        files_of = sorted(path.iterdir()) if path.is_dir() else [path] * path.is_file()
        stats = [(one.name, one.stat()) for one in files_of]
    except (OSError, ValueError):  # no name of a file
        return value
    found = [(name, about.st_size, about.st_mtime_ns) for name, about in stats]
    return (value, found) if found else value


def _parts(value: Any) -> Iterator[bytes]:
    """The content of a value in pieces that no other value has."""
    if isinstance(value, _LEAVES):
        yield f"{type(value).__name__} {value!r}".encode(errors="surrogatepass")
    elif isinstance(value, Enum | Path | np.dtype):
        yield f"{type(value).__qualname__} {value!s}".encode()
    elif is_dataclass(value) and not isinstance(value, type):
        yield f"dataclass {_name(type(value))}".encode()
        for one in fields(value):
            yield one.name.encode()
            yield from _parts(getattr(value, one.name))
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield f"array {value.dtype.descr} {value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, Mapping | Sequence | AbstractSet):
        yield from _several(value)
    elif isinstance(value, FunctionType):
        yield from _function(value)
    elif isinstance(value, CodeType):
        yield from _parts((value.co_code, value.co_names, value.co_consts))
    elif isinstance(value, ModuleType | type):
        yield f"{type(value).__name__} {_name(value)}".encode()
    else:
        yield b"pickle" + cloudpickle.dumps(value)


def _several(value: Mapping[Any, Any] | Sequence[Any] | AbstractSet[Any]) -> Iterator[bytes]:
    """What a container holds: a mapping in its order, a set in one of its own."""
    yield f"{type(value).__name__} {len(value)}".encode()
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _parts(key)
            yield from _parts(one)
    elif isinstance(value, AbstractSet):
        yield from sorted(digest(one).encode() for one in value)
    else:
        for one in value:
            yield from _parts(one)


def _function(function: Callable[..., Any]) -> Iterator[bytes]:
    yield f"function {_name(function)}".encode()
    if "<locals>" not in function.__qualname__:
        try:
            yield getsource(function).encode()
        except (OSError, TypeError):  # typed at a prompt
            yield from _parts(function.__code__)
    else:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        yield from _parts((function.__code__, function.__defaults__, cells))


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
