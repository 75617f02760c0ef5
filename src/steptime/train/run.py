"""A long training under one strategy, with a log, validation and checkpoints."""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch.distributed as dist
from torch import Tensor

from steptime.errors import SteptimeError, UsageError
from steptime.strategies import Strategy
from steptime.train.checkpoint import load_checkpoint
from steptime.train.figures import RankRecord
from steptime.train.job import (
    Job,
    bring_home,
    no_collection,
    passed_over,
    read_counters,
    start_training,
)
from steptime.train.keeping.choice import agreed, candidates
from steptime.train.keeping.folders import sweep
from steptime.train.keeping.goodput import Goodput, Ledger, process_began
from steptime.train.keeping.marker import CheckpointInfo
from steptime.train.keeping.stopping import asked_to_stop
from steptime.train.loop import training_steps
from steptime.train.options import RunOptions
from steptime.train.text import keep_text
from steptime.train.watch import BadLossError, LongRun, Validation, Watch

_MOST_ROLLBACKS = 3
"""Times that a run may go back to the same checkpoint."""


@dataclass(frozen=True)
class Trained:
    """What a run came to on this rank."""

    record: RankRecord
    validations: list[Validation]
    goodput: Goodput


@dataclass(frozen=True)
class _Start:
    """Where a run begins: with a checkpoint or none, and with a batch of which number."""

    checkpoint: tuple[Path, CheckpointInfo] | None
    batch: int

    @property
    def step(self) -> int:
        """The number of the first step."""
        return self.checkpoint[1].step if self.checkpoint else 0


def run_training(
    job: Job, strategy: Strategy, run: RunOptions, out: Path, tell: Callable[[str], None]
) -> Trained:
    """Train to the job's last step; ``tell`` is called with lines of a log, on every rank.

    Raises SteptimeError when the loss is no number or explodes and that is not to be helped,
    StoppedError after a checkpoint where SIGTERM came, and UsageError when no step is left to
    train.
    """
    first = dist.get_rank() == 0
    if first and run.checkpoint_every:
        sweep(out)
        keep_text(out, job.options.data.data, job.tokens, job.context)
    ledger = Ledger(out if first and run.checkpoint_every else None, process_began())
    this = LongRun(job, strategy, run, out, ledger, tell)
    found = agreed(candidates(run.resume, out, job.options.steps), tell)
    start = _Start(found, found[1].batch if found else 0)
    if start.step >= job.options.steps:
        name = found[0] if found else out
        raise UsageError(
            f"{name} is at step {start.step} and --steps is {job.options.steps}: ask for more"
        )
    if found:
        tell(f"goes on from {found[0]}")
    ledger.go_on_from(start.step)
    begin, rollbacks = start, list[int]()
    while True:
        try:
            return _train(this, start)
        except BadLossError as bad:
            start = _rolled_back(this, begin, bad, rollbacks)
        gc.collect()  # the training before this one, whose modules and hooks know one another


def _rolled_back(this: LongRun, begin: _Start, bad: BadLossError, rollbacks: list[int]) -> _Start:
    """Where to go on after a bad loss: the last good checkpoint or ``begin``, with later data."""
    own = candidates("auto", this.out, this.job.options.steps)
    found = agreed(own, this.tell) or begin.checkpoint
    start = _Start(found, bad.batch)
    rollbacks.append(start.step)
    if rollbacks.count(start.step) > _MOST_ROLLBACKS:
        raise SteptimeError(
            f"{bad}, after {_MOST_ROLLBACKS} rollbacks to step {start.step}: try a smaller --lr"
        )
    where = found[0] if found else "the beginning"
    this.tell(f"{bad}: back to {where}, and on with the data behind it")
    this.ledger.roll_back(start.step)
    return start


def _train(this: LongRun, start: _Start) -> Trained:
    """Train from ``start`` to the last step."""
    job, run, ledger = this.job, this.options, this.ledger
    training = start_training(job, this.strategy)
    scale = None
    if start.checkpoint:
        _, scale = load_checkpoint(start.checkpoint[0], training, start.checkpoint[1])
    first, last = start.step, job.options.steps
    timed_from = min(first + job.options.warmup, last - 1)
    watch = Watch(this, training, start.step, start.batch)
    every = run.val_every or max(1, last // 5)
    losses: list[Tensor] = []
    validations: list[Validation] = []
    before = read_counters(training)
    ledger.charge("starting")
    outcomes = training_steps(
        training,
        first,
        scale,
        batches_ahead=start.batch - first,
        leave_out=None if run.on_bad_loss == "stop" else watch.leaves_out,
    )
    with no_collection(), asked_to_stop(run.checkpoint_every is not None) as asked:
        for outcome in outcomes:
            done = outcome.step + 1
            if not outcome.left_out:
                losses.append(outcome.loss)
            if done == timed_from:
                before = read_counters(training)
            watch.step(outcome)
            if done % every == 0 or done == last:
                aside = read_counters(training)  # ZeRO-3 gathers parameters for held-out text too
                loss = training.held_out_loss(job.tokens, run.val_batches)
                before = passed_over(before, aside, read_counters(training))
                validations.append(Validation(done, loss))
                watch.validation(validations[-1])
            watch.keep(outcome, asked())
        watch.settle()
    if not losses:
        raise SteptimeError(f"all {last - first} steps were left out: try a smaller --lr")
    record = bring_home(training, losses, before, timed_from)
    return Trained(record, validations, ledger.closed())
