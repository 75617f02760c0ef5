"""Discovery: finding what files add to a package of steptime, or in a user's own file.

Every registry is a package in which each file defines one name, such as STRATEGY. All modules on
the package's ``__path__`` count; there is no other list.
"""

import importlib.util
import sys
import traceback
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TypeVar

from steptime.errors import UsageError

_T = TypeVar("_T")


def modules_of(package: str) -> list[ModuleType]:
    """The modules of a package, imported, in the order of their names."""
    path = import_module(package).__path__
    names = sorted(found.name for found in iter_modules(path))
    return [import_module(f"{package}.{name}") for name in names]


def members(package: str, name: str, kind: type[_T]) -> list[_T]:
    """The values of ``name`` in the modules of a package, where they are a ``kind``, in order."""
    found = (getattr(module, name, None) for module in modules_of(package))
    return [value for value in found if isinstance(value, kind)]


def first_lines(path: Iterable[str]) -> dict[str, str]:
    """The first line of the docstring of each module on a package's path, without importing it."""
    found: dict[str, str] = {}
    for folder in path:
        for file in sorted(Path(folder).glob("*.py")):
            with file.open(encoding="utf-8") as text:
                found.setdefault(file.stem, text.readline().strip().strip('"'))
    return found


def is_file(word: str) -> bool:
    """Whether a word is the path of a user's Python file rather than a shipped name."""
    return word.endswith(".py")


def member_of_file(path: str, name: str, kind: type[_T], *, what: str) -> _T:
    """The value of ``name`` in a user's file; errors call it ``what``.

    Raises UsageError where there is no such file, it cannot be imported, or it lacks the name.
    """
    found = getattr(module_of_file(path), name, None)
    if not isinstance(found, kind):
        raise UsageError(
            f"{path} defines no {what}: let it end with {name} = {kind.__name__}(…), as those of "
            f"{kind.__module__.rpartition('.')[0]} do"
        )
    return found


def module_of_file(path: str | Path) -> ModuleType:
    """A user's Python file as a module, imported again after each time it was saved.

    Raises UsageError where there is no such file or it cannot be imported.
    """
    try:
        saved = Path(path).stat().st_mtime_ns
    except OSError:
        raise UsageError(f"there is no file {path}: name a Python file or a shipped one") from None
    return _imported(Path(path), saved)


@cache
def _imported(path: Path, _saved: int) -> ModuleType:
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None or not path.is_file():
        raise UsageError(f"{path} is no Python file: name one that ends in .py")
    module = importlib.util.module_from_spec(specification)
    # A file may import its neighbours, as a script may.
    sys.path.insert(0, str(path.resolve().parent))
    try:
        specification.loader.exec_module(module)
    except SyntaxError as error:
        raise UsageError(f"{path}, line {error.lineno}: {error.msg}") from None
    except Exception as error:
        raise UsageError(f"cannot import {path}: {described(error, path)}") from None
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def described(error: Exception, path: Path) -> str:
    """An exception in one line, with the last line of ``path`` that led to it."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).resolve() == path.resolve()
    ]
    where = f"line {lines[-1]}: " if lines else ""
    words = " ".join(str(error).split())
    return f"{where}{type(error).__name__}{': ' * bool(words)}{words}"
