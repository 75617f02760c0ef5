"""Which gradient-sync strategy is fastest here, and where its step goes."""

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np
import torch
import torch.distributed as dist

from steptime.errors import SteptimeError
from steptime.host_memory import available_bytes
from steptime.ratios import enough
from steptime.runs.figures import StepFigures
from steptime.runs.host_links import host_links
from steptime.runs.turns import Turns
from steptime.simulate.bubble import bubble_of
from steptime.strategies import Strategy, strategy_named
from steptime.study.comparison import Comparison
from steptime.study.race import block_times, race_of
from steptime.study.resimulate import measured_case
from steptime.timeline import Timeline, merge
from steptime.timeline.waits import with_waits
from steptime.train.asked import shared_step
from steptime.train.contestant import LEAD_IN, Contestant
from steptime.train.figures import RankRecord, strategy_figures
from steptime.train.job import Job, gather, no_collection
from steptime.train.parallel.parties import parties
from steptime.turns import TurnOptions
from steptime.world.alignment import Alignment, read_clocks
from steptime.world.clock import TorchPeers

ALONE: AbstractContextManager[None] = nullcontext()
"""The baton of who takes turns with no other job."""

BYTES_OF_PARAMETER = 16
"""Weights, gradients and Adam's two moments in fp32; in mixed precision it comes to as many."""

PART_OF_MEMORY = 0.5
"""Of what is free, for all trainings at rest; the rest is for the activations of one at work."""


def compare(
    job: Job,
    chosen: Sequence[Strategy],
    how: TurnOptions,
    on_step: Callable[[Strategy], None],
    baton: AbstractContextManager[None] = ALONE,
) -> Comparison | None:
    """Train the same job under each strategy, which take turns in an order drawn from the seed.

    The answer on rank 0, None on the others. ``on_step`` hears of every step of this rank that is
    a warm-up's or timed. ``baton``: entered for every turn, and once more when all are done, where
    other jobs take turns with this one.
    """
    return take_turns(job, chosen, how, on_step, baton, kept=_all_fit(job, len(chosen)))


def take_turns(
    job: Job,
    chosen: Sequence[Strategy],
    how: TurnOptions,
    on_step: Callable[[Strategy], None],
    baton: AbstractContextManager[None] = ALONE,
    *,
    kept: bool,
) -> Comparison | None:
    """The same; ``kept``: all trainings stay in memory from turn to turn."""
    options, peers = job.options, TorchPeers()
    planned = how.blocks(options.steps - options.warmup)
    steps = options.warmup + sum(planned) + LEAD_IN * len(planned)
    contestants = {one.name: Contestant(job, one, steps, kept=kept) for one in chosen}
    hear = {one.name: partial(on_step, one) for one in chosen}
    before = read_clocks(peers)
    began = perf_counter()
    order: list[list[str]] = []
    times: list[list[float]] = []
    with no_collection():
        for turn, timed in enumerate(planned):
            drawn = np.random.default_rng([options.seed, turn]).permutation(list(contestants))
            order.append([str(name) for name in drawn])
            with baton:
                for name in order[-1]:
                    contestants[name].take_turn(timed, hear[name])
            if how.part is not None:
                times.append(_of_all_ranks([c.last_steps(timed) for c in contestants.values()]))
                late = perf_counter() - began >= how.limit_s
                if _rank_0_has(late or enough(np.array(times), how.part)):
                    break
        with baton:
            pass
    records = {name: gather(one.bring_home()) for name, one in contestants.items()}
    alignment = Alignment(before, read_clocks(peers))
    if dist.get_rank():
        return None
    done = planned[: len(order)]
    turns = Turns(
        seed=options.seed,
        steps=sum(done),
        lead_in=LEAD_IN,
        kept=kept,
        cores=min(len(spent.cores) for of in records.values() for one in of for spent in one.spent),
        see=how.part,
        blocks=block_times(records, done, order),
    )
    return summarise(job, records, alignment, turns)


def _of_all_ranks(steps_s: list[list[float]]) -> list[float]:
    """The median step of each strategy, as long as its slowest rank's; the same on all ranks.

    ``steps_s``: of this rank, shape (strategies, steps).
    """
    everyone: list[list[list[float]]] = [[]] * dist.get_world_size()
    dist.all_gather_object(everyone, steps_s)
    medians: list[float] = np.median(np.array(everyone).max(axis=0), axis=1).tolist()
    return medians


def _rank_0_has(seen: bool) -> bool:
    """Whether rank 0 has: clocks differ, and all must go on or none."""
    told = [seen]
    dist.broadcast_object_list(told, src=0)
    return told[0]


def _all_fit(job: Job, trainings: int) -> bool:
    """Whether every host, or every GPU, may hold so many trainings at once."""
    on_gpu = job.device.type == "cuda"
    free = torch.cuda.mem_get_info(job.device)[0] if on_gpu else available_bytes()
    place = f"{platform.node()} {job.device if on_gpu else ''}"
    everyone: list[tuple[str, int]] = [("", 0)] * dist.get_world_size()
    dist.all_gather_object(everyone, (place, free))
    places = [name for name, _ in everyone]
    needed = trainings * BYTES_OF_PARAMETER * job.config.parameters
    return all(needed * places.count(at) <= PART_OF_MEMORY * free for at, free in everyone)


def summarise(
    job: Job,
    records: Mapping[str, Sequence[RankRecord]],
    alignment: Alignment,
    turns: Turns | None = None,
) -> Comparison:
    """The answer from what all ranks brought home under each strategy, by name.

    ``alignment``: how the clocks of their hosts stand to that of rank 0.

    Raises SteptimeError when the loss under one of them is no number.
    """
    found = {name: _summarised(job, name, of, alignment) for name, of in records.items()}
    figures = {name: of_strategy for name, (of_strategy, _) in found.items()}
    for name, of_strategy in figures.items():
        if not np.isfinite(of_strategy.loss).all():
            raise SteptimeError(f"the loss under {name} is no number any more: try a smaller --lr")
    timeline = merge([line for _, line in found.values()])
    last = list(records.values())[-1]
    carried = host_links((one.host, one.flows) for one in last)
    return Comparison(figures, timeline, race_of(turns) if turns else None, carried)


def _summarised(
    job: Job, name: str, records: Sequence[RankRecord], alignment: Alignment
) -> tuple[StepFigures, Timeline]:
    """The figures of a strategy, and the timeline of all ranks that they are of."""
    strategy, tokens = strategy_named(name), job.tokens_per_step
    shared = shared_step(name, job.options, job.config, ranks=len(records))
    line = merge([alignment.aligned(one.timeline, one.rank) for one in records])
    line = with_waits(line, parties(shared.mesh) if shared else None)
    figures = strategy_figures(strategy, records, line, tokens_per_step=tokens)
    if shared is None or shared.mesh.pipeline == 1:
        return figures, line
    # What the stages worked is known by now, and so is the bubble that their schedule has with it.
    program = measured_case(name, figures, job.options, job.config).program
    line = replace(line, bubble=bubble_of(program))
    return strategy_figures(strategy, records, line, tokens_per_step=tokens), line
