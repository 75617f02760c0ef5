"""What the benchmarks of the backend share: contenders that the same ranks time in turn."""

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

Run = Callable[[], object]
Seconds = NDArray[np.float64]

_BLOCK_S = 0.04
_MOST_RUNS = 20_000
_LOOKS = 5


@dataclass(frozen=True)
class Ratio:
    """Of paired times: the median of their ratios, and its quartiles."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}–{self.high:.2f})"


def ratio(dividend: Seconds, divisor: Seconds) -> Ratio:
    """How many times ``divisor`` is ``dividend``, pair by pair; both have shape (pairs,)."""
    return Ratio(*np.percentile(dividend / divisor, (25, 50, 75)).tolist())


def in_turns(contenders: Mapping[str, Run], pairs: int, barrier: Run) -> dict[str, Seconds]:
    """Seconds of one run of each contender in each repetition, shape (pairs,), on every rank.

    In a repetition each contender has a turn, in an order drawn anew: one run that is not timed, a
    barrier, then runs back to back for some 40 ms. The slowest rank's time counts. The default
    group of torch.distributed, which is otherwise at rest, agrees on the figures.
    """
    counts = {name: _runs_of_a_turn(run, barrier) for name, run in contenders.items()}
    seconds = {name: np.empty(pairs) for name in contenders}
    order = np.random.default_rng(0)
    for pair in range(pairs):
        for name in order.permutation(list(contenders)):
            seconds[name][pair] = _turn(contenders[name], counts[name], barrier)
    for own in seconds.values():
        dist.all_reduce(torch.from_numpy(own), dist.ReduceOp.MAX)
    return seconds


def machine() -> str:
    """The processor, its cores, how busy they are, and what runs on it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )
    return (
        f"{model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}; "
        f"{platform.system()} {platform.release()}, torch {torch.__version__}"
    )


def _runs_of_a_turn(run: Run, barrier: Run) -> int:
    quickest = min(_turn(run, 3, barrier) for _ in range(_LOOKS))
    runs = torch.tensor(max(1, min(_MOST_RUNS, int(_BLOCK_S / quickest))))
    dist.broadcast(runs, 0)
    return int(runs)


def _turn(run: Run, runs: int, barrier: Run) -> float:
    run()
    barrier()
    start = perf_counter()
    for _ in range(runs):
        run()
    return (perf_counter() - start) / runs
