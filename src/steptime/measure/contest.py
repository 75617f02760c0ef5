"""Contest: algorithms that take turns at one size, and what that tells of the fastest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats
from steptime.measure.timing import Effort
from steptime.measure.transport import BenchTransport
from steptime.ratios import DECISION, Standing, enough, standing

if TYPE_CHECKING:
    from steptime.measure.bench import Bench


@dataclass(frozen=True)
class Contest:
    """Algorithms that took turns at one size.

    ``seconds`` of one operation, shape (turns, algorithms), in the order of ``names``. ``orders``,
    of the same shape: the columns of ``seconds`` in the order in which they ran in each turn.
    """

    size_bytes: int
    names: Sequence[str]
    orders: NDArray[np.integer]
    seconds: Floats

    @cached_property
    def standing(self) -> Standing | None:
        """How the algorithms stand to the best; None where one turn each tells nothing."""
        return standing(self.seconds) if len(self.seconds) > 1 else None

    @property
    def best(self) -> int:
        """The column that seems the fastest; whether it is, ``level`` tells."""
        return int(np.log(self.seconds).mean(axis=0).argmin())

    @property
    def medians(self) -> dict[str, float]:
        """The median over the turns of the seconds of one operation, by name."""
        return dict(zip(self.names, np.median(self.seconds, axis=0).tolist(), strict=True))

    @property
    def level(self) -> list[int]:
        """The others that cannot be told from the best; where there are none, it has won."""
        others = [at for at in range(len(self.names)) if at != self.best]
        return self.standing.level() if self.standing else others

    @property
    def winner(self) -> str | None:
        """The fastest, as far as the turns tell one."""
        return None if self.level else self.names[self.best]

    def ratio(self, at: int) -> tuple[float, tuple[float, float]] | None:
        """How many times the best's time one takes, and its 99 % interval; None after one turn.

        The intervals of all of a contest hold together, and who is level has 1 in its own.
        """
        return self.standing.ratio(at, DECISION) if self.standing else None

    def record(self) -> dict[str, Any]:
        """The contest as in run.json."""
        names = self.names
        ratios = {name: self.ratio(at) for at, name in enumerate(names)}
        return {
            "source": "measured",
            "size_bytes": self.size_bytes,
            "winner": self.winner,
            "level_with": [names[at] for at in self.level],
            "ratios": {
                name: {"against_best": ratio[0], "ci99": list(ratio[1])}
                for name, ratio in ratios.items()
                if ratio
            },
            "turns": [
                {
                    "order": [names[at] for at in order],
                    "time_us": dict(zip(names, times, strict=True)),
                }
                for order, times in zip(
                    self.orders.tolist(), (1e6 * self.seconds).tolist(), strict=True
                )
            ],
        }


def take_turns(
    transport: BenchTransport,
    bench: "Bench",
    size_bytes: int,
    names: Sequence[str],
    timed: Callable[[str, Effort], float],
) -> Contest:
    """Let algorithms take turns at one size, in an order drawn anew for each turn.

    ``timed`` times a block of operations of one, in seconds of one operation, the same on all
    ranks. The first block of each begins with the warm-up, the others with one untimed operation,
    which brings its buffers back into the caches. One algorithm alone has a single block.
    """
    warmup, part = bench.effort.warmup, bench.turns.part
    orders: list[NDArray[np.integer]] = []
    seconds: list[list[float]] = []
    began = perf_counter()
    for turn, iterations in enumerate(bench.blocks(len(names))):
        effort = Effort(min(1, warmup) if turn else warmup, iterations)
        orders.append(np.random.default_rng([bench.seed, size_bytes, turn]).permutation(len(names)))
        found = {at: timed(names[at], effort) for at in orders[-1].tolist()}
        seconds.append([found[at] for at in range(len(names))])
        if part is None:
            continue
        late = perf_counter() - began >= bench.turns.limit_s
        if _rank_0_has(transport, late or enough(np.array(seconds), part)):
            break
    return Contest(size_bytes, names, np.array(orders), np.array(seconds))


def _rank_0_has(transport: BenchTransport, seen: bool) -> bool:
    """Whether rank 0 has: hosts differ in logarithms and clocks, and all must go on or none."""
    return bool(transport.gather(np.array(float(seen)))[0])
