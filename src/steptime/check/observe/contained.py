"""What only observes must not fail in place of the script that it observes."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from types import FrameType
from typing import ParamSpec, TypeVar

from steptime.record.calls import Watcher

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class Contained:
    """Functions that observe one ``what``, until one of them fails: that is told and ends it.

    The script may use groups, tensors and models of any class, which an observer cannot all know.
    """

    what: str
    over: bool = False

    def of(self, function: Callable[P, T]) -> Callable[P, T | None]:
        """A function that raises nothing, and returns None where it would have or all is over."""

        @wraps(function)
        def within(*arguments: P.args, **options: P.kwargs) -> T | None:
            if self.over:
                return None
            try:
                return function(*arguments, **options)
            except Exception as error:
                self.over = True
                said = f"{type(error).__name__}: {error}"
                print(
                    f"steptime check watches no {self.what} in this rank from here on: its own "
                    f"look at them failed ({said}); please report it",
                    file=sys.stderr,
                )
                return None

        return within


def caller() -> FrameType | None:
    """Who calls the function that asks, or what contains that."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame


class ContainedWatcher:
    """A Watcher that is told of calls within ``contained``."""

    def __init__(self, contained: Contained, watcher: Watcher) -> None:
        self.issued = contained.of(watcher.issued)
        self.returned = contained.of(watcher.returned)
        self.waiting = contained.of(watcher.waiting)
