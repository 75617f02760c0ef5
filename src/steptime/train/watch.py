"""Watching over a long training: its log, its bad losses, its checkpoints, its time."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from steptime import clock
from steptime.errors import SteptimeError, StoppedError
from steptime.strategies import Strategy
from steptime.train.job import Job
from steptime.train.keeping.folders import checkpoint_path
from steptime.train.keeping.goodput import Ledger
from steptime.train.keeping.keeper import Keeper, snapshot
from steptime.train.keeping.losses import problem_of
from steptime.train.live import Live
from steptime.train.loop import StepOutcome
from steptime.train.options import RunOptions
from steptime.train.tensors import mean_over_ranks

_MOST_SKIPPED = 10
"""Steps in a row that may be left out: after more it is the weights that are bad."""


@dataclass(frozen=True)
class Validation:
    """Loss on held-out text, in nats a token, after ``step`` steps."""

    step: int
    loss: float


@dataclass(frozen=True, eq=False)
class LongRun:
    """What stays the same over the rollbacks of a run; ``tell`` takes the lines of its log."""

    job: Job
    strategy: Strategy
    options: RunOptions
    out: Path
    ledger: Ledger
    tell: Callable[[str], None]


class BadLossError(SteptimeError):
    """A loss to roll back from; ``batch``: the number of the batch behind its."""

    def __init__(self, text: str, batch: int) -> None:
        super().__init__(text)
        self.batch = batch


class Watch:
    """Looks at each step of a run from step ``first`` on, whose batch is number ``batch``.

    All ranks call its methods alike.
    """

    def __init__(self, run: LongRun, training: Live, first: int, batch: int) -> None:
        self._run = run
        self._training = training
        self._ahead = batch - first
        self._log = _Log(run.job, first, run.tell)
        self._problem: str | None = None  # of the step that is left out
        self._skipped = 0  # steps in a row
        self._step = first
        self._keeper = Keeper(
            training.device,
            run.options.keep_checkpoints,
            training.steps,
            lambda folder: self._log.note(f"checkpoint: {folder}"),
        )

    def leaves_out(self, loss: Tensor, norm: Tensor) -> bool:
        """Whether a step is not to update the weights; its norm is the same on all ranks."""
        step, vocabulary = self._step + 1, self._training.config.vocabulary
        self._problem = problem_of(mean_over_ranks(loss), step, vocabulary)
        # Where the loss is scaled, a step that overflows is left out anyhow, and is no bad one.
        if not (self._problem or self._training.precision.scaled or torch.isfinite(norm)):
            self._problem = f"the norm of the gradient is {float(norm)} at step {self._step + 1}"
        return self._problem is not None

    def step(self, outcome: StepOutcome) -> None:
        """Log a step; SteptimeError or BadLossError where the run cannot go on behind it."""
        self._step = outcome.step + 1
        if outcome.left_out:
            self._left_out(outcome)
            return
        self._skipped = 0
        loss = self._log.step(outcome)
        if loss is not None:
            self._check(loss)
        self._run.ledger.charge("steps")

    def validation(self, validation: Validation) -> None:
        """Log a look at held-out text."""
        self._log.note(f"step {validation.step} | held-out loss {validation.loss:.4f}")
        self._run.ledger.charge("validation")

    def keep(self, outcome: StepOutcome, asked: bool) -> None:
        """Begin a checkpoint where one is due; StoppedError after one where a rank is ``asked``."""
        run, done = self._run, self._step
        if not run.options.checkpoint_every:
            return
        stops = self._keeper.between_steps(asked)
        if stops or self._checkpoint_due(done):
            self._check(mean_over_ranks(outcome.loss))
            folder = checkpoint_path(run.out, done)
            batch = done + self._ahead
            self._keeper.begin(folder, snapshot(self._training, done, batch, outcome.loss_scale))
            run.ledger.charge("checkpoints")
            run.ledger.enter(done)
        if stops and done < self._training.steps:
            self._keeper.settle()
            raise StoppedError(
                f"stopped by SIGTERM after step {done}: --resume auto goes on from {folder}"
            )
        run.ledger.charge("checkpoints")

    def settle(self) -> None:
        """Wait until the last checkpoint is whole."""
        self._keeper.settle()
        self._run.ledger.charge("checkpoints")

    def _checkpoint_due(self, done: int) -> bool:
        every = self._run.options.checkpoint_every
        return every is not None and (done % every == 0 or done == self._training.steps)

    def _check(self, loss: float) -> None:
        """Raise SteptimeError where a loss is bad that nobody judged before the update."""
        if self._run.options.on_bad_loss != "stop":
            return
        if problem := problem_of(loss, self._step, self._training.config.vocabulary):
            raise SteptimeError(f"{problem}: try a smaller --lr")

    def _left_out(self, outcome: StepOutcome) -> None:
        """Say that a step was left out; raise where that does not help."""
        self._run.ledger.charge("skipped")
        if self._run.options.on_bad_loss == "rollback":
            self._keeper.settle()
            raise BadLossError(f"{self._problem}", outcome.step + self._ahead + 1)
        self._skipped += 1
        if self._skipped > _MOST_SKIPPED:
            raise SteptimeError(
                f"{self._problem}, and {_MOST_SKIPPED} steps before it were left out: try "
                "--on-bad-loss rollback, or a smaller --lr"
            )
        self._log.note(f"{self._problem}: its update is left out")


class _Log:
    """A log as llm.c prints it, some twenty lines over a run."""

    def __init__(self, job: Job, first: int, tell: Callable[[str], None]) -> None:
        self._job = job
        self._first = first
        self._tell = tell
        self._every = max(1, (job.options.steps - first) // 20)
        self._since = clock.now()
        self._steps = 0

    def step(self, outcome: StepOutcome) -> float | None:
        """Print every so many steps; the mean loss of one that was printed."""
        done, total = outcome.step + 1, self._job.options.steps
        self._steps += 1
        if done % self._every and done not in (self._first + 1, total):
            return None
        loss = mean_over_ranks(outcome.loss)
        seconds = (clock.now() - self._since) / self._steps
        self._tell(
            f"step {done:>{len(str(total))}}/{total} | loss {loss:.4f} | norm {outcome.norm:.3f}"
            f" | lr {outcome.learning_rate:.2e} | {1e3 * seconds:.1f} ms"
            f" | {self._job.tokens_per_step / seconds:,.0f} tok/s"
        )
        self._restart()
        return loss

    def note(self, text: str) -> None:
        """Write a line about something that is no step; its time counts to none."""
        self._tell(text)
        self._restart()

    def _restart(self) -> None:
        self._since, self._steps = clock.now(), 0
