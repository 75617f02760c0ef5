"""What only observes must not fail in place of the script that it observes."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from steptime.record.calls import Calls
from steptime.world import compat
from steptime.world.autograd import is_transformed

_MOST_SAID = 300  # letters

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
        """A function that raises nothing, and returns None where it would have or all is over.

        So it does while torch.jit traces what is called, or torch.func transforms it.

        The compiler, which looks at every Python frame that C++ calls while it runs what it has
        compiled, leaves it alone.
        """

        @compat.left_alone
        @wraps(function)
        def within(*arguments: P.args, **options: P.kwargs) -> T | None:
            if self.over or is_transformed():
                return None
            try:
                return function(*arguments, **options)
            except Exception as error:
                self.over = True
                said, *_ = f"{type(error).__name__}: {error}".splitlines()
                print(
                    f"steptime check watches no {self.what} in this rank from here on: its own "
                    f"look at them failed ({said[:_MOST_SAID]}); please report it",
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
    """A Watcher that is told of calls within ``contained``: when they begin, and what else serves.

    Most look at the beginning alone, and each call of a script is told to all of them.
    """

    def __init__(
        self,
        contained: Contained,
        issued: Callable[..., None],
        returned: Callable[[Any], None] | None = None,
        waiting: Callable[[Any], None] | None = None,
    ) -> None:
        self.issued = contained.of(issued)
        self.returned = contained.of(returned) if returned else _nothing
        self.waiting = contained.of(waiting) if waiting else _nothing


def watched_calls(calls: Calls, watcher: ContainedWatcher) -> Callable[[], None]:
    """Tell a watcher of each call of this process; the result ends that."""
    calls.watchers.append(watcher)
    return lambda: calls.watchers.remove(watcher)


def _nothing(_: Any) -> None:
    """What is told to nobody."""
