"""Replaced: a function of PyTorch's or Python's for which an observer puts one that looks on."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeAlias

Function: TypeAlias = Callable[..., Any]


def replaced(
    owners: Sequence[Any], name: str, watched: Callable[[Function], Function]
) -> Callable[[], None]:
    """Put in a function's place what ``watched`` makes of it; the result ends that.

    ``owners``: the modules or classes that have it under its name, the first of which is asked.
    """
    function: Function = getattr(owners[0], name)
    watching = wraps(function)(watched(function))
    for owner in owners:
        setattr(owner, name, watching)

    def restore() -> None:
        for owner in owners:
            setattr(owner, name, function)

    return restore


def all_of(ends: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """What ends several observations, the last one first: each puts back what it has found."""

    def end() -> None:
        for one in reversed(ends):
            one()

    return end
