"""What a recorded script adds to the record of its run: its command, and its calls by place."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from steptime.runs.environment import ALWAYS

MOST_PLACES = 5
"""Places in the script that are kept of each kind of call."""


@dataclass(frozen=True, kw_only=True)
class RecordedCall:
    """All calls of one kind in one group: means over the steps and the ranks that made them.

    ``bytes_per_step``: of the whole vectors. ``exposed_s``: seconds of a step in which the rank did
    nothing but wait while such a call was under way. ``places``: where in the script they stand,
    those with the longest exposure first.
    """

    op: str
    group: str
    ranks: int
    calls_per_step: float
    bytes_per_step: float
    exposed_s: float
    places: Sequence[str] = field(default=(), metadata=ALWAYS)


@dataclass(frozen=True, kw_only=True)
class RecordedScript:
    """A script that ran as it is. ``steps_by``: what told where its steps end.

    ``program``: which of its steps its Program is of, or why it has none. Of one that steptime did
    not run ``read_from`` says which traces tell of it, and ``untold`` what these do not tell.
    ``by_gpu``: its times go by the clock of the GPUs that it used.
    """

    command: Sequence[str] = field(default=(), metadata=ALWAYS)
    read_from: str = ""
    untold: Sequence[str] = ()
    steps_by: str
    by_gpu: bool = False
    calls: Sequence[RecordedCall] = field(default=(), metadata=ALWAYS)
    program: str = ""
