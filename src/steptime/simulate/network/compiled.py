"""Compiling with numba: the decorators for it."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile a function on its first call and keep the code for later runs.

    Numba keeps it beside the source or, where that cannot be written, in the user's cache; where
    neither can be written it compiles in every run.
    """
    return _compiled(function)


def in_place(function: Function) -> Function:
    """``compiled``, for one that works on the arrays that it is given and makes none.

    References to arrays are not counted, and calls of it are inlined: both cost more than the work
    when many small functions hand on many arrays.
    """
    return _compiled(function, _nrt=False, forceinline=True)


def _compiled(function: Function, **options: Any) -> Function:
    try:
        return cast(Function, njit(cache=True, **options)(function))
    except RuntimeError:  # numba found no place to keep it
        return cast(Function, njit(**options)(function))
