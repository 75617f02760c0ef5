"""How strategies took turns in one run, what else the machine did meanwhile, and who won."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Block:
    """The timed steps of a strategy in one of its turns.

    ``step_time_s``: their median, each as long as its slowest rank's; ``compute_s``: the mean over
    steps and ranks. ``others_cores``: how many cores of the busiest host other processes kept busy
    on average, and ``stolen_cores`` how many its hypervisor withheld; None where the system does
    not tell.
    """

    strategy: str
    turn: int
    steps: int
    step_time_s: float
    compute_s: float
    others_cores: float | None = None
    stolen_cores: float | None = None


@dataclass(frozen=True, kw_only=True)
class Turns:
    """The turns of all strategies; ``blocks`` in the order in which they ran.

    That is drawn anew for each turn from ``seed``. ``steps``: timed, of each strategy, and
    ``lead_in``: untimed before those of each block. ``kept``: whether a strategy goes on where its
    last turn ended; where memory does not hold all at once it starts again from the first weights.
    ``see``: the difference that was looked for, relative. ``cores``: of the host with the fewest.
    ``more_steps``: so many timed steps more of each would nearly always tell who is the fastest, if
    they are as far apart as they seem; None where that is told, or they are not apart at all.
    """

    seed: int
    steps: int
    lead_in: int
    kept: bool
    cores: int
    see: float | None = None
    more_steps: int | None = None
    blocks: Sequence[Block] = ()


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """How many times the step of the best a strategy's step takes.

    ``ci95`` of all strategies together hold the true ratios with 95 %.
    """

    against_best: float
    ci95: tuple[float, float]
