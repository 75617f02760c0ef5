"""Who is the fastest of strategies that took turns, from the times of their blocks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from steptime.arrays import Floats
from steptime.ratios import CONFIDENCE, standing
from steptime.runs.load import load_by_others
from steptime.runs.turns import Block, Ratio, Turns
from steptime.train.figures import RankRecord, timed_phases


@dataclass(frozen=True)
class Race:
    """What came of the turns: a winner, or several that are level.

    ``winner``: the fastest, None where it cannot be told from those it is ``level_with``, or where
    one turn each tells nothing. ``ratios``: of each strategy's step to the fastest one's.
    """

    turns: Turns
    winner: str | None = None
    level_with: Sequence[str] = ()
    ratios: Mapping[str, Ratio] = field(default_factory=dict)


def block_times(
    records: Mapping[str, Sequence[RankRecord]],
    timed: Sequence[int],
    order: Sequence[Sequence[str]],
) -> list[Block]:
    """The blocks of all turns, in the order in which they ran, by strategy.

    ``records``: of all ranks under each strategy. ``timed``: steps of a block of each turn. A turn
    that the timelines no longer hold, since they keep the last thousand steps, is left out.
    """
    blocks = []
    phases = {name: timed_phases(name, of_ranks) for name, of_ranks in records.items()}
    ends = np.cumsum(timed)
    for turn, names in enumerate(order):
        for name in names:
            of_ranks, table = records[name], phases[name]  # (ranks, steps)
            numbers = table["step"][0] - of_ranks[0].timed_from
            own = table[:, (numbers >= ends[turn] - timed[turn]) & (numbers < ends[turn])]
            if not own.size:
                continue
            load = load_by_others([(one.host, one.spent[turn]) for one in of_ranks])
            blocks.append(
                Block(
                    strategy=name,
                    turn=turn,
                    steps=own.shape[1],
                    step_time_s=float(np.median(own["duration"].max(axis=0))),
                    compute_s=float(own["compute"].mean()),
                    others_cores=load[0] if load else None,
                    stolen_cores=load[1] if load else None,
                )
            )
    return blocks


def race_of(turns: Turns) -> Race:
    """Who won, by pairs of blocks of the same turn."""
    names = list(dict.fromkeys(block.strategy for block in turns.blocks))
    times = _table(turns.blocks, names)
    if len(names) == 1:
        return Race(turns, winner=names[0])
    if len(times) < 2:
        return Race(turns, level_with=[names[at] for at in times.sum(axis=0).argsort()[1:]])
    found = standing(times)
    level = found.level()
    in_all = found.turns_to_tell() if level else None
    if in_all is not None:
        per_turn = sum(block.steps for block in turns.blocks) / times.size
        turns = replace(turns, more_steps=math.ceil(max(1, in_all - len(times)) * per_turn))
    ratios = {}
    for at, name in enumerate(names):
        ratio, interval = found.ratio(at, CONFIDENCE)
        ratios[name] = Ratio(against_best=ratio, ci95=interval)
    winner = None if level else names[found.best]
    return Race(turns, winner, [names[at] for at in level], ratios)


def _table(blocks: Sequence[Block], names: Sequence[str]) -> Floats:
    """The times of those turns in which all strategies were timed, shape (turns, strategies)."""
    turns: dict[int, dict[str, float]] = {}
    for block in blocks:
        turns.setdefault(block.turn, {})[block.strategy] = block.step_time_s
    rows = [[row[name] for name in names] for row in turns.values() if len(row) == len(names)]
    return np.array(rows).reshape(-1, len(names))
