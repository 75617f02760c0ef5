"""Which gradient-sync strategy is fastest here, and where its step goes."""

import gc
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch.distributed as dist

from steptime.errors import SteptimeError
from steptime.strategies import Strategy, strategy_named
from steptime.study.comparison import Comparison
from steptime.timeline import merge
from steptime.train.figures import RankRecord, strategy_figures
from steptime.train.job import Job, gather, measure_strategy
from steptime.train.loop import StepOutcome
from steptime.world.alignment import Alignment, read_clocks
from steptime.world.clock import TorchPeers


def compare(
    job: Job, chosen: Sequence[Strategy], on_step: Callable[[Strategy, StepOutcome], None]
) -> Comparison | None:
    """Train the same job under each strategy in turn; the answer on rank 0, None on the others.

    ``on_step`` hears of every step of this rank.
    """
    records = {}
    peers = TorchPeers()
    before = read_clocks(peers)
    for strategy in chosen:
        record = measure_strategy(job, strategy, partial(on_step, strategy))
        records[strategy.name] = gather(record)
        gc.collect()
    alignment = Alignment(before, read_clocks(peers))
    return summarise(job, records, alignment) if dist.get_rank() == 0 else None


def summarise(
    job: Job, records: Mapping[str, Sequence[RankRecord]], alignment: Alignment
) -> Comparison:
    """The answer from what all ranks brought home under each strategy, by name.

    ``alignment``: how the clocks of their hosts stand to that of rank 0.

    Raises SteptimeError when the loss under one of them is no number.
    """
    figures = {
        name: strategy_figures(strategy_named(name), of_ranks, tokens_per_step=job.tokens_per_step)
        for name, of_ranks in records.items()
    }
    for name, of_strategy in figures.items():
        if not np.isfinite(of_strategy.loss).all():
            raise SteptimeError(f"the loss under {name} is no number any more: try a smaller --lr")
    timelines = [
        alignment.aligned(record.timeline, record.rank)
        for of_ranks in records.values()
        for record in of_ranks
    ]
    return Comparison(figures, merge(timelines))
