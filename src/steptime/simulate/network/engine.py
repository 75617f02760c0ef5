"""Engine: what the simulator has in C, in ``steptime/simulate/engine``.

There messages move over links from one event to the next (engine.c), over links that they share
fairly (max_min.c); the streams of ranks start and end ops as messages arrive (streams.c) or, where
each call takes a known time, by a recurrence (recurrence.c). Functions take the arrays of their
arguments as they are and change them in place; no index is checked.
"""

from steptime.errors import UsageError

try:
    from steptime.simulate.network._engine import (
        append,
        dispatch,
        divide,
        fill_starts,
        fill_starts_of_calls,
        follow,
        gather,
        give_rows,
        make_moves,
        run,
        run_step,
        run_streams,
        tally,
    )
except ImportError as error:
    raise UsageError(
        "this installation has no simulator, which is in C: install a C compiler and Python's "
        "headers (on Debian: apt install gcc python3-dev), then steptime again"
    ) from error

__all__ = [
    "append",
    "dispatch",
    "divide",
    "fill_starts",
    "fill_starts_of_calls",
    "follow",
    "gather",
    "give_rows",
    "make_moves",
    "run",
    "run_step",
    "run_streams",
    "tally",
]
