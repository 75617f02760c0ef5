"""The streams of all ranks at fidelity ``message``: their ops start and end as messages arrive.

The engine runs them (streams.c); this is what it works on. A *stream* here has one number among
those of all ranks: that of its rank times the streams of a rank, plus its own. An *instance* is
that of Matching; a *task* is what its ranks have the network do: messages of a collective, or one
alone.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Flags, Ints, Longs

STREAMS = 0  # the owner of the parts that stand for streams which compute, numbered as they are

TASK = np.dtype(
    [
        ("first", np.int64),  # of its rows among all moves; NONE: not read yet
        ("size", np.int64),  # rows
        ("members", np.int32),  # 0: a lone message
        ("spare", np.int32),  # an owner that may be used again, else NONE
        ("whole", np.bool_),  # no more moves follow those rows
    ],
    align=True,
)


class Tasks(NamedTuple):
    """What each instance does.

    ``of``: its task, NONE where a group has one rank, shape (instances,); ``every``: all tasks,
    dtype TASK. The moves of those that were read are rows of one Moves.
    """

    of: Ints
    every: NDArray[Any]


class Parts(NamedTuple):
    """Of Matching: where the parts of each rank begin, and the instance and place of each part."""

    parts_of: Longs
    instance: Ints
    place: Ints


class Streams(NamedTuple):
    """Where the streams of all ranks are.

    Of each stream: how many ops it has ``done``, in all steps, whether it is ``busy`` with the
    next, and whether it is ``listed`` among those to look at, the first ``counts[0]`` of ``todo``.
    ``begun``, shape (steps, instances): of a collective its owner in the network, of a message the
    stream that reached it first; NONE before.
    """

    done: Longs
    busy: Flags
    listed: Flags
    todo: Longs
    counts: Longs
    begun: Longs
