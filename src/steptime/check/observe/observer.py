"""What the files of this package register."""

from collections.abc import Callable
from dataclasses import dataclass

from steptime.record.calls import Calls
from steptime.record.events import Log


@dataclass(frozen=True)
class Observer:
    """``observe`` begins to note in a log what it sees; what it returns ends that."""

    observe: Callable[[Log, Calls], Callable[[], None]]
