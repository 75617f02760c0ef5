"""Replaced: a function of PyTorch's or Python's for which an observer puts one that looks on."""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from types import FrameType
from typing import Any, TypeAlias

import torch

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


def before(owners: Sequence[Any], name: str, look: Callable[..., object]) -> Callable[[], None]:
    """Let ``look`` see what a function is given, each time before it runs; the result ends that.

    Not where the compiler follows the call: what looks on is no part of what it compiles.
    """

    def watched(function: Function) -> Function:
        def looked_at(*arguments: Any, **options: Any) -> Any:
            if not torch.compiler.is_compiling():
                look(*arguments, **options)
            return function(*arguments, **options)

        return looked_at

    return replaced(owners, name, watched)


def after(owners: Sequence[Any], name: str, look: Callable[..., object]) -> Callable[[], None]:
    """Let ``look`` see what a function has returned, and then what it was given; else as before."""

    def watched(function: Function) -> Function:
        def looked_at(*arguments: Any, **options: Any) -> Any:
            result = function(*arguments, **options)
            if not torch.compiler.is_compiling():
                look(result, *arguments, **options)
            return result

        return looked_at

    return replaced(owners, name, watched)


def calling() -> FrameType | None:
    """The frame that calls the function of which the caller of this looks at each call.

    Others may look at it, too, as ``before`` and ``after`` do.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame


def all_of(ends: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """What ends several observations, the last one first: each puts back what it has found."""

    def end() -> None:
        for one in reversed(ends):
            one()

    return end
