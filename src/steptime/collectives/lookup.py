"""Lookup: which algorithms a word on the command line means, those of a user's file included."""

from pathlib import Path

from steptime.collectives.algorithm import Algorithm, algorithm_named, algorithms_in, all_algorithms
from steptime.collectives.collective import COLLECTIVES, collective_named
from steptime.collectives.msccl_reader import read_msccl
from steptime.discovery import is_file, module_of_file
from steptime.errors import UsageError
from steptime.nearest import mend

_MSCCL = ".xml"


def is_own(word: str) -> bool:
    """Whether a word names a user's file, in Python or in MSCCL's XML."""
    return is_file(word) or word.endswith(_MSCCL)


def find_algorithm(collective: str, word: str) -> Algorithm:
    """The one algorithm of a collective that ``word`` means: a shipped one, or that of a file.

    Raises UsageError when there is none, or the file has several.
    """
    if not is_own(word):
        return algorithm_named(collective, word)
    found = find_algorithms(word, collective)
    if len(found) > 1:
        names = " and ".join(a.name for a in found)
        raise UsageError(f"{word} has {len(found)} of {collective}, {names}: leave one in it")
    return found[0]


def find_algorithms(word: str, collective: str | None = None) -> list[Algorithm]:
    """The algorithms that ``word`` means, in the order of the collectives.

    ``all_reduce/ring`` is one, ``ring`` those of that name, ``all_reduce`` those of that
    collective, ``all`` every shipped one, ``FILE.py`` those that the file defines, and
    ``FILE.xml`` what an MSCCL program does; ``collective`` keeps its own alone.

    Raises UsageError when there is none; it says what there is.
    """
    if collective:
        collective_named(collective)
    kind, slash, name = word.rpartition("/")
    if is_own(word):
        known = algorithms_of_file(word)
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
    names = dict.fromkeys(a.name for a in among)
    of = f"{collective} " if collective else "algorithm or collective "
    hint = mend(word, names if collective or is_own(word) else (*names, *COLLECTIVES))
    raise UsageError(f"there is no {of}{word!r}: {hint}")


def algorithms_of_file(path: str | Path) -> list[Algorithm]:
    """The algorithms that a Python file defines, in their order, or that of an MSCCL program.

    Raises UsageError when there is no such file, it cannot be read, or it defines none.
    """
    if f"{path}".endswith(_MSCCL):
        return [read_msccl(Path(path))]
    found = algorithms_in(module_of_file(path))
    if not found:
        raise UsageError(
            f'{path} defines no algorithm: put @algorithm("all_reduce"), of steptime.collectives, '
            "above a function that yields rounds"
        )
    return found
