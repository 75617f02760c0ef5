"""A long training under one strategy, with a log, validation and checkpoints."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from steptime.errors import SteptimeError, UsageError
from steptime.strategies import Strategy
from steptime.train.checkpoint import load_checkpoint, save_checkpoint
from steptime.train.data import validation_batches
from steptime.train.figures import RankRecord
from steptime.train.job import Job, bring_home, no_collection, read_counters, start_training
from steptime.train.loop import StepOutcome, evaluate, mean_over_ranks, training_steps
from steptime.train.options import RunOptions
from steptime.train.training import Training


@dataclass(frozen=True)
class Validation:
    """Loss on held-out text, in nats a token, after ``step`` steps."""

    step: int
    loss: float


def run_training(
    job: Job, strategy: Strategy, run: RunOptions, out: Path, tell: Callable[[str], None]
) -> tuple[RankRecord, list[Validation]]:
    """Train to the job's last step; ``tell`` is called with lines of a log, on every rank.

    Raises SteptimeError when the loss is no longer a number, and UsageError when no step is left to
    train.
    """
    training = start_training(job, strategy)
    first, scale = load_checkpoint(run.resume, training) if run.resume else (0, None)
    last = job.options.steps
    if first >= last:
        raise UsageError(f"{run.resume} is at step {first} and --steps is {last}: ask for more")
    timed_from = min(first + job.options.warmup, last - 1)
    every = run.val_every or max(1, last // 5)
    log = _Log(job, first, tell)
    losses: list[Tensor] = []
    validations: list[Validation] = []
    before = read_counters(training)
    with no_collection():
        for outcome in training_steps(training, first, scale):
            losses.append(outcome.loss)
            done = outcome.step + 1
            if done == timed_from:
                before = read_counters(training)
            log.step(outcome)
            if done % every == 0 or done == last:
                validations.append(Validation(done, _validate(training, job, run)))
                log.validation(validations[-1])
            if run.checkpoint_every and done % run.checkpoint_every == 0:
                folder = out / f"checkpoint_{done:08}"
                save_checkpoint(folder, training, done, outcome.loss_scale)
                log.note(f"checkpoint: {folder}")
    return bring_home(training, losses, before, timed_from), validations


def _validate(training: Training, job: Job, run: RunOptions) -> float:
    return evaluate(
        training,
        validation_batches(
            job.tokens,
            context=job.context,
            batch=job.options.train.batch // job.options.train.accumulate,
            rank=training.comm.rank,
            ranks=training.comm.ranks,
            steps=run.val_batches,
        ),
    )


class _Log:
    """A log as llm.c prints it, some twenty lines over a run."""

    def __init__(self, job: Job, first: int, tell: Callable[[str], None]) -> None:
        self._job = job
        self._first = first
        self._tell = tell
        self._every = max(1, (job.options.steps - first) // 20)
        self._since = time.perf_counter()
        self._steps = 0

    def step(self, outcome: StepOutcome) -> None:
        done, total = outcome.step + 1, self._job.options.steps
        self._steps += 1
        if done % self._every and done not in (self._first + 1, total):
            return
        loss = mean_over_ranks(outcome.loss)
        seconds = (time.perf_counter() - self._since) / self._steps
        self._tell(
            f"step {done:>{len(str(total))}}/{total} | loss {loss:.4f} | norm {outcome.norm:.3f}"
            f" | lr {outcome.learning_rate:.2e} | {1e3 * seconds:.1f} ms"
            f" | {self._job.tokens_per_step / seconds:,.0f} tok/s"
        )
        if not math.isfinite(loss):
            raise SteptimeError(f"the loss is {loss} at step {done}: try a smaller --lr")
        self._restart()

    def validation(self, validation: Validation) -> None:
        self.note(f"step {validation.step} | held-out loss {validation.loss:.4f}")

    def note(self, text: str) -> None:
        """Write a line about something that is no step; its time counts to none."""
        self._tell(text)
        self._restart()

    def _restart(self) -> None:
        self._since, self._steps = time.perf_counter(), 0
