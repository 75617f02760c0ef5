"""Nearest names: suggestions for mistyped ones."""

from collections.abc import Iterable
from difflib import get_close_matches

_CUTOFF = 0.8  # "gpt4" is no mistyped "gpt2"


def nearest_name(word: str, known: Iterable[str]) -> str | None:
    """The one of the ``known`` names that ``word`` is most like, None where none is similar.

    Capitals and punctuation do not count. The beginning of a name counts as similar to it.
    """
    names: dict[str, str] = {}
    for name in known:
        names.setdefault(_bare(name), name)
    bare = _bare(word)
    near = get_close_matches(bare, names, 1, _CUTOFF)
    if not near and bare:
        near = [one for one in names if one.startswith(bare)]
    return names[near[0]] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question for the end of an error, ``did you mean llama3-70B?``; empty where none is near.

    ``known`` in an order in which the first is the best guess where several begin with ``word``.
    """
    name = nearest_name(word, known)
    return "" if name is None else f"did you mean {name}?"


def mend(word: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the nearest one, or all known."""
    names = list(known)
    return did_you_mean(word, names) or f"choose one of {', '.join(names)}"


def _bare(name: str) -> str:
    """Letters and digits alone; a name of nothing else stays as it is."""
    folded = name.casefold()
    return "".join(filter(str.isalnum, folded)) or folded
