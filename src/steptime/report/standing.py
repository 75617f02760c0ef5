"""How strategies stand to each other: who won, who is level, and what to doubt of it, in words."""

from collections.abc import Iterator
from itertools import groupby

import numpy as np

from steptime.report.about import place
from steptime.runs.record import RunRecord
from steptime.units import format_seconds
from steptime.words import listed

_FELT = 0.05
"""Of the cores: what other processes may take before it is told."""

_UNEQUAL = 1.1
"""How many times one compute is another's before that is told, for it is the same model's."""


def opening(run: RunRecord) -> str:
    """Who is the fastest of several strategies, or which of them nobody can tell apart."""
    best, entry = run.fastest, run.best
    step = f"{format_seconds(entry.step_time_s.median)} a step"
    if entry.source == "simulated":
        return f"{best} is the fastest {place(run)}: {step}"
    if run.winner and run.ratios:
        return f"{best} is the fastest {place(run)}: {step}"
    if run.level_with:
        return f"{listed([best, *run.level_with])} are level {place(run)}: {step} under {best}"
    return f"{best} has the shortest median {place(run)}: {step}"


def how_sure(run: RunRecord) -> Iterator[str]:
    """By how much the best is ahead, how far that is sure, and what would tell more."""
    best, turns = run.fastest, run.turns
    if run.best.source == "simulated":
        return
    if turns is None:
        yield "No turns were taken, so nothing tells whether that is chance."
        return
    count = len({block.turn for block in turns.blocks})
    others = sorted(
        (ratio.against_best, name) for name, ratio in run.ratios.items() if name != best
    )
    if others:
        spans = [
            f"{name} {ratio:.2f} ({' to '.join(f'{end:.2f}' for end in run.ratios[name].ci95)})"
            for ratio, name in others
        ]
        yield f"Times {best}’s step: {', '.join(spans)}; 95 % intervals of {count} turns."
    if run.level_with:
        yield _what_would_tell(run)


def _what_would_tell(run: RunRecord) -> str:
    turns = run.turns
    more = turns.more_steps if turns else None
    if not run.ratios:
        return "One turn of each tells nothing: take more --steps."
    if more is None:
        return "They are as fast as each other."
    digits = 10 ** max(0, len(str(more)) - 2)
    rounded = -(-more // digits) * digits
    return f"If they are as far apart as it seems, about {rounded:,} more steps of each would tell."


def circumstances(run: RunRecord) -> Iterator[str]:
    """What else the machine did, and whether the same model computed as fast all the time."""
    blocks = run.turns.blocks if run.turns else ()
    if not run.turns or not blocks:
        return
    if not run.turns.kept:
        yield "Memory does not hold all models at once: each turn began with the first weights."
    taken = [(b.others_cores or 0.0) + (b.stolen_cores or 0.0) for b in blocks]
    if np.mean(taken) >= _FELT * run.turns.cores:
        yield (
            f"Other processes took {np.mean(taken):.1f} of {run.turns.cores} cores meanwhile "
            f"({min(taken):.1f} to {max(taken):.1f} from block to block)."
        )
    by_name = sorted(blocks, key=lambda block: block.strategy)
    medians = sorted(
        (float(np.median([block.compute_s for block in group])), name)
        for name, group in groupby(by_name, lambda block: block.strategy)
    )
    (least, quick), (most, slow) = medians[0], medians[-1]
    if most > _UNEQUAL * least:
        yield (
            f"The same model’s compute took {format_seconds(least)} under {quick} and "
            f"{format_seconds(most)} under {slow}: something shared its cores."
        )
