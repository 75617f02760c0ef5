"""Calls that no timeout of their own ends, given one.

A client of torch's store waits for its answer as long as TCP keeps the connection: when a link
breaks, for many minutes, and whatever timeout the store was given.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def within(limit_s: float, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What ``call`` returns or raises, made in a thread of its own.

    Raises TimeoutError after ``limit_s`` seconds, and leaves the thread to itself.
    """
    outcome: Future[R] = Future()

    def make() -> None:
        try:
            outcome.set_result(call(*args, **kwargs))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=make, daemon=True).start()
    return outcome.result(limit_s)
