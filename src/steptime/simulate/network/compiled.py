"""Compiling with numba: the decorators for it."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile a function on its first call and cache the code for later runs.

    Numba caches it beside the source or, where that is not writable, in the user's cache; where
    neither is writable it compiles in every run.
    """
    return _compiled(function)


def in_place(function: Function) -> Function:
    """``compiled`` for a function that works on given arrays and allocates none.

    References to arrays are not counted and calls are inlined: both cost more than the work itself
    when many small functions pass many arrays.
    """
    return _compiled(function, _nrt=False, forceinline=True)


def _compiled(function: Function, **options: Any) -> Function:
    try:
        return cast(Function, njit(cache=True, **options)(function))
    except RuntimeError:  # numba found no place to keep it
        return cast(Function, njit(**options)(function))
