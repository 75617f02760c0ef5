"""Lookup: which algorithms a word on the command line means, those of a user's file included."""

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from steptime.collectives.algorithm import Algorithm, algorithm_named, algorithms_in, all_algorithms
from steptime.collectives.collective import collective_named
from steptime.errors import UsageError


def find_algorithms(word: str, collective: str | None = None) -> list[Algorithm]:
    """The algorithms that ``word`` means, in the order of the collectives.

    ``all_reduce/ring`` is one, ``ring`` those of that name, ``all_reduce`` those of that
    collective, ``all`` every shipped one, and ``FILE.py`` those that the file defines;
    ``collective`` keeps its own alone.

    Raises UsageError when there is none; it lists what there is.
    """
    if collective:
        collective_named(collective)
    kind, slash, name = word.rpartition("/")
    if word.endswith(".py"):
        known = algorithms_of_file(Path(word))
        found = known
    elif slash:
        found = known = [algorithm_named(kind, name)]
    else:
        known = all_algorithms()
        found = [a for a in known if word in (a.name, a.collective.name, "all")]
    chosen = [a for a in found if collective in (None, a.collective.name)]
    if chosen:
        return chosen
    among = [a for a in known if collective in (None, a.collective.name)] or known
    names = ", ".join(dict.fromkeys(a.name for a in among))
    of = f"{collective} " if collective else "algorithm or collective "
    raise UsageError(f"there is no {of}{word!r}: choose one of {names}")


def algorithms_of_file(path: Path) -> list[Algorithm]:
    """The algorithms that a Python file defines, in their order.

    Raises UsageError when there is no such file, it cannot be imported, or it defines none.
    """
    found = algorithms_in(_imported(path))
    if not found:
        raise UsageError(
            f'{path} defines no algorithm: put @algorithm("all_reduce"), of steptime.collectives, '
            "above a function that yields rounds"
        )
    return found


def _imported(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {path}: name a Python file or a shipped algorithm")
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
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
    """What an exception says, on one line, and the last line of ``path`` that led to it."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).resolve() == path.resolve()
    ]
    where = f"line {lines[-1]}: " if lines else ""
    words = " ".join(str(error).split())
    return f"{where}{type(error).__name__}{': ' * bool(words)}{words}"
