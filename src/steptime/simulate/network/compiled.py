"""Compiling with numba: the decorators for it."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])
_OPTIONS: dict[str, Any] = {"_nrt": False, "no_cfunc_wrapper": True}
_INNER: dict[str, Any] = {**_OPTIONS, "no_cpython_wrapper": True}


def in_place(function: Function) -> Function:
    """Compile a function that works on given arrays and allocates none, on its first call.

    Its code is cached for later runs: beside the source or, where that is not writable, in the
    user's cache; where neither is writable it is compiled in every run. References to arrays are
    not counted, which would cost more than the work itself; whether a call is inlined is left to
    LLVM, for many arrays are passed by one pointer (see ``tables``). It is compiled for each type
    of an argument, so callers make whole numbers of records ``int(np.int64(…))``: the one type that
    a Python int has there.
    """
    try:
        return cast(Function, njit(cache=True, **_OPTIONS)(function))
    except RuntimeError:  # numba found no place to keep it
        return cast(Function, njit(**_OPTIONS)(function))


def inner(function: Function) -> Function:
    """``in_place`` for what compiled functions alone call, never Python.

    It is part of their code: it needs no entry from Python and no cache of its own, which together
    took a third of the time of the first run on a machine.
    """
    return cast(Function, njit(**_INNER)(function))
