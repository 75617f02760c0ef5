from typing import Any

from numpy.typing import NDArray

from steptime.arrays import Floats, Ints, Longs
from steptime.simulate.cores import Cores
from steptime.simulate.division import Here
from steptime.simulate.network.state import Moves, Network
from steptime.simulate.network.unshared import Progress
from steptime.simulate.queues import Queues
from steptime.simulate.recurrence import Calls, Prices, Todo
from steptime.simulate.streams import Parts, Streams, Tasks

# Let parts enter their first rounds, each at its time, and go on until a reason that state.py has.
def run(net: Network, parts: Ints, at: Floats, until: float, stop: bool, /) -> int: ...

# Schedule lone messages, each at its time.
def dispatch(net: Network, tokens: Longs, start: Floats, moves: Moves, /) -> int: ...

# Append messages of a collective, from the first to before past, to the chains of its parts.
def append(net: Network, base: int, moves: Moves, first: int, past: int, /) -> int: ...

# Add to the series what the flows in progress have carried so far.
def tally(net: Network, /) -> int: ...

# Let all messages of some rounds arrive without events; 0 where two would share a link.
def follow(net: Network, moves: Moves, progress: Progress, last: bool, /) -> int: ...

# Merge the transfers of rounds into the messages of a batch; how many there are.
def gather(
    transfers: NDArray[Any],
    bounds: Longs,
    first: int,
    offsets: Longs,
    inside: bool,
    batch: tuple[Ints, Ints, Floats, Floats],
    scratch: tuple[Longs, Longs, Longs],
    /,
) -> int: ...

# Fill in the moves of a batch between devices, shape (2, messages), from the latency of each
# message, the bytes that its sender holds and its weight; the rate of reducing in bytes/s.
def make_moves(
    batch: tuple[Ints, Ints, Floats, Floats],
    devices: Ints,
    costs: tuple[Floats, Floats, Floats],
    rate: float,
    rows: NDArray[Any],
    /,
) -> int: ...

# Give all links of some paths a row in the series, in the order in which they come.
def give_rows(net: Network, paths: Ints, /) -> int: ...

# Run the streams of all ranks until a reason that state.py has; fill in when each rank op ends.
def run_streams(
    net: Network,
    queues: Queues,
    parts: Parts,
    tasks: Tasks,
    moves: Moves,
    streams: Streams,
    cores: Cores,
    ends: Floats,
    /,
) -> int: ...

# Fill in when each rank op of a step ends where each call takes a known time.
def run_step(
    queues: Queues,
    prices: Prices,
    calls: Calls,
    todo: Todo,
    done: Longs,
    free: Floats,
    before: Floats,
    ends: Floats,
    /,
) -> int: ...

# Fill in when the ops of a rank started, in the first columns.
def fill_starts(queues: Queues, ends: Floats, rank: int, starts: Floats, /) -> int: ...

# Fill in when the ops that communicate started, rank by rank.
def fill_starts_of_calls(
    queues: Queues, ends: Floats, scratch: Floats, starts: Floats, /
) -> int: ...

# Add up what the time of each rank goes on, shape (ranks, 5).
def divide(
    queues: Queues,
    phase: NDArray[Any],
    ready: Floats,
    ends: Floats,
    begin: Floats,
    finish: Floats,
    here: Here,
    starts: Floats,
    totals: Floats,
    /,
) -> int: ...
