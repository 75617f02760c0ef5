"""One of several strategies that take turns: its training, kept between turns or begun again."""

import gc
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from steptime.collectives.call_bytes import Traffic
from steptime.runs.load import CpuTime, cpu_time
from steptime.strategies import Strategy
from steptime.timeline import Phase, Timeline, merge
from steptime.train.figures import RankRecord
from steptime.train.job import Job, parameter_hash, read_counters, start_training
from steptime.train.live import Live
from steptime.train.loop import StepOutcome, training_steps
from steptime.world.disturbances import mark_faults
from steptime.world.wire import flows

LEAD_IN = 1
"""Untimed steps at the begin of a turn. What another strategy pushed out of the caches comes back,
and an overlapped one gets to where its forward waits for the parameters of the step before."""


class Contestant:
    """A strategy's training on this rank, which goes on for some steps whenever its turn comes.

    All ranks call it alike. ``steps``: of the whole training, for its learning rate. ``kept``: it
    goes on where its last turn ended; otherwise it begins each turn with the first weights and the
    job's warm-up, and holds nothing in between.
    """

    def __init__(self, job: Job, strategy: Strategy, steps: int, *, kept: bool) -> None:
        self._job = replace(job, options=replace(job.options, steps=steps))
        self._strategy = strategy
        self._kept = kept
        self._training: Live | None = None
        self._outcomes: Iterator[StepOutcome] = iter(())
        self._done = 0  # steps of the present training
        self._shown: list[int] = []  # those of them that its timeline shows
        self._timelines: list[Timeline] = []  # of the trainings before, with so many steps
        self._numbered = 0
        self._losses: list[Tensor] = []
        self._hash = ""
        self._traffic, self._counted = Traffic(0, 0), 0
        self._wire: Traffic | None = Traffic(0, 0)
        self._spent: list[CpuTime] = []
        self._core_s: list[tuple[float, float]] = []

    def take_turn(self, timed: int, on_step: Callable[[], None]) -> None:
        """Train for so many timed steps; ``on_step`` is called after each step that counts."""
        training = self._training or self._begin(on_step)
        before, start = read_counters(training), cpu_time()
        self._advance(LEAD_IN)
        self._advance(timed, on_step)
        after = read_counters(training)
        self._spent.append(cpu_time().since(start))
        self._counted += LEAD_IN + timed
        self._traffic = self._traffic.plus(after.traffic.minus(before.traffic))
        if self._wire and after.wire and before.wire:
            self._wire = self._wire.plus(after.wire.minus(before.wire))
        else:
            self._wire = None
        if not self._kept:
            self._end()

    def last_steps(self, count: int) -> list[float]:
        """Seconds that the last steps took this rank."""
        timeline = self._timelines[-1] if self._training is None else self._timeline()
        steps = timeline.steps_named(self._strategy.name)[-count:]
        return list((steps["end"] - steps["start"]).tolist())

    def bring_home(self) -> RankRecord:
        """What this rank measured in all turns; the training ends."""
        rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
        if self._training:
            self._end()
        return RankRecord(
            rank=rank,
            host=platform.node(),
            timed_from=self._job.options.warmup,
            steps=self._counted,
            timeline=replace(merge(self._timelines), ranks=ranks),
            losses=torch.stack(self._losses).tolist(),
            traffic=self._traffic,
            wire=self._wire,
            parameter_hash=self._hash,
            spent=self._spent,
            core_s=self._core_s,
            flows=flows(),
        )

    def _begin(self, on_step: Callable[[], None]) -> Live:
        """Set the training up and train its warm-up, which the timeline shows once."""
        self._training = start_training(self._job, self._strategy)
        self._outcomes = training_steps(self._training, 0)
        self._done, self._shown = 0, []
        first = not self._timelines
        self._advance(self._job.options.warmup, on_step if first else None)
        return self._training

    def _advance(self, steps: int, on_step: Callable[[], None] | None = None) -> None:
        """Train; the steps that someone hears of are those that the timeline shows."""
        for outcome in islice(self._outcomes, steps):
            if not self._timelines:  # each further training repeats the first
                self._losses.append(outcome.loss)
            if on_step:
                self._shown.append(self._done)
                on_step()
            self._done += 1

    def _end(self) -> None:
        assert self._training  # noqa: S101
        self._hash = parameter_hash(self._training)
        self._timelines.append(self._timeline())
        self._core_s += self._of_cores()
        self._numbered += len(self._shown)
        self._training, self._outcomes = None, iter(())
        gc.collect()

    def _of_cores(self) -> list[tuple[float, float]]:
        """What the timed steps of the present training needed of a core, and behind it updates."""
        recorder = self._training.recorder if self._training else None
        if recorder is None or self._job.device.type != "cpu":
            return []
        untimed = max(0, self._job.options.warmup - self._numbered)
        steps = [recorder.core_s[n] for n in self._shown[untimed:] if n in recorder.core_s]
        updates = [of.get(Phase.UPDATE, 0.0) for of in steps]
        return [(of[Phase.STEP] - own, own) for of, own in zip(steps, updates, strict=True)]

    def _timeline(self) -> Timeline:
        """The steps of the present training, numbered behind those of the trainings before."""
        training = self._training
        assert training and training.recorder  # noqa: S101
        mark_faults(training.recorder)
        whole = training.recorder.timeline(training.rank, training.ranks)
        return shown(whole, self._shown, self._numbered)


def shown(timeline: Timeline, steps: Sequence[int], first: int = 0) -> Timeline:
    """The given steps of one rank's timeline alone, in order, numbered from ``first`` on.

    Of the step before each that is not given its communication stays, which may reach into it, as a
    gather does that the next forward hides. All of it, so that ranks keep the same calls; its
    number is a negative one.
    """
    rows = timeline.intervals.copy()
    own = np.isin(rows["step"], steps)
    leads_in = ~own & np.isin(rows["step"] + 1, steps) & (rows["phase"] == Phase.COMMUNICATION)
    place = first + np.searchsorted(steps, rows["step"])  # of a lead-in: of the step behind it
    rows["step"] = np.where(own, place, -1 - place)
    return replace(timeline, intervals=rows[own | leads_in])
