"""Checkpoints that ranks write while they train, and what they do about a bad loss."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch.distributed as dist
from numpy.typing import NDArray

from ranks import on_ranks
from steptime.errors import SteptimeError
from steptime.strategies import Strategy, strategy_named
from steptime.strategies.strategy import Communicator, Vector, Work
from steptime.train.checkpoint import load_checkpoint
from steptime.train.job import Job, prepare_job, start_training
from steptime.train.keeping.choice import agreed, candidates
from steptime.train.keeping.folders import checkpoint_path, checkpoints, unfinished_path
from steptime.train.keeping.keeper import Keeper, snapshot
from steptime.train.keeping.marker import state_name
from steptime.train.loop import training_steps
from steptime.train.options import DataOptions, JobOptions, ModelOptions, RunOptions, TrainOptions
from steptime.train.run import Trained, run_training
from steptime.train.training import Training

STEPS = 8


def job() -> Job:
    options = JobOptions(
        model=ModelOptions(layers=1, heads=2, hidden=16, tokens=16),
        data=DataOptions(),
        train=TrainOptions(batch=4, lr=1e-2, lr_warmup=0, lr_schedule="constant"),
        precision="fp32",
        compiled=False,
        steps=STEPS,
        warmup=1,
        seed=0,
    )
    return prepare_job(options, on_gpu=False)


def poisoned(name: str, *bad: int) -> Strategy:
    """A strategy whose calls of these numbers find a NaN in the gradients of rank 1 alone."""
    sound, calls = strategy_named(name), []

    def reduce(comm: Communicator, gradients: Vector) -> Iterable[Work]:
        calls.append(1)
        if dist.get_rank() == 1 and len(calls) in bad:
            gradients[0] = float("nan")
        return sound.reduce(comm, gradients)

    return replace(sound, reduce=reduce)


def parameters(training: Training) -> NDArray[np.float32]:
    training.settle()
    return training.flat.parameters.numpy().copy()


def by_hand(work: Job, name: str, *parts: tuple[int, int, int], left_out: int = -1) -> Training:
    """A training of parts (first step, first batch, steps); of one the update is left out."""
    training = start_training(work, strategy_named(name))
    for first, batch, steps in parts:
        outcomes = training_steps(
            training,
            first,
            batches_ahead=batch - first,
            leave_out=lambda *_: training.comm.recorder.step == left_out,
        )
        for _ in islice(outcomes, steps):
            pass
    return training


@dataclass(frozen=True)
class Found:
    """What one rank saw."""

    asynchronous: list[bool]
    skipped: tuple[list[str], Trained, bool]
    rolled_back: tuple[list[str], Trained, bool]
    gave_up: list[str]
    passed_over: tuple[list[str], str]


def all_of_it(folder: Path) -> Found:
    work = job()
    return Found(
        written_while_it_trains(work, folder / "async"),
        skips(work, folder / "skip"),
        rolls_back(work, folder / "back"),
        gives_up(work, folder / "up"),
        passes_over(folder / "back"),
    )


def written_while_it_trains(work: Job, out: Path) -> list[bool]:
    """Steps between the begin of a checkpoint and its end are not in it."""
    training = start_training(work, strategy_named("sharded"))
    outcomes = training_steps(training, 0)
    keeper = Keeper(training.device, 1, STEPS, lambda _: None)
    outcome = next(outcomes)
    then = parameters(training)
    keeper.begin(checkpoint_path(out, 1), snapshot(training, 1, 1, outcome.loss_scale))
    unfinished = unfinished_path(checkpoint_path(out, 1)).exists()
    hidden = not checkpoint_path(out, 1).exists()
    next(outcomes)
    later = parameters(training)
    dist.barrier()
    stops = [keeper.between_steps(asked) for asked in (False, dist.get_rank() == 1)]
    keeper.settle()
    again = start_training(work, strategy_named("replicated"))
    load_checkpoint(checkpoint_path(out, 1), again)
    return [
        unfinished and hidden,
        np.array_equal(parameters(again)[: len(then)], then[: len(parameters(again))]),
        not np.array_equal(then, later),
        stops == [False, True],
        not unfinished_path(checkpoint_path(out, 1)).exists(),
    ]


def ran(work: Job, strategy: Strategy, out: Path, **options: object) -> tuple[list[str], Trained]:
    told: list[str] = []
    trained = run_training(work, strategy, RunOptions(**options), out, told.append)  # type: ignore[arg-type]
    return told, trained


def skips(work: Job, out: Path) -> tuple[list[str], Trained, bool]:
    made(out)
    told, trained = ran(work, poisoned("sharded", 4), out, on_bad_loss="skip", checkpoint_every=3)
    last = start_training(work, strategy_named("sharded"))
    load_checkpoint(checkpoint_path(out, STEPS), last)
    straight = by_hand(work, "sharded", (0, 0, STEPS), left_out=3)
    return told, trained, np.array_equal(parameters(last), parameters(straight))


def rolls_back(work: Job, out: Path) -> tuple[list[str], Trained, bool]:
    """The fourth step is bad: from the checkpoint after two it goes on with the fifth batch."""
    made(out)
    told, trained = ran(
        work, poisoned("replicated", 4), out, on_bad_loss="rollback", checkpoint_every=2
    )
    last = start_training(work, strategy_named("replicated"))
    load_checkpoint(checkpoint_path(out, STEPS), last)
    straight = by_hand(work, "replicated", (0, 0, 2), (2, 4, STEPS - 2))
    return told, trained, np.array_equal(parameters(last), parameters(straight))


def gives_up(work: Job, out: Path) -> list[str]:
    """Where each step is bad, each policy ends in a sentence, and no bad weights are kept."""
    always, sentences = range(1, 100), []
    patient = replace(work, options=replace(work.options, steps=20))
    wild = TrainOptions(batch=4, lr=1e3, lr_warmup=0, lr_schedule="constant", clip=0.0)
    for number, (of, strategy, policy) in enumerate(
        (
            (patient, poisoned("replicated", *always), "skip"),
            (work, poisoned("replicated", *always), "rollback"),
            (work, poisoned("replicated", *always), "stop"),
            (
                replace(work, options=replace(work.options, train=wild)),
                strategy_named("replicated"),
                "stop",
            ),
        )
    ):
        folder = made(out / f"{number}")
        with pytest.raises(SteptimeError) as error:
            ran(of, strategy, folder, on_bad_loss=policy, checkpoint_every=5)
        sentences.append(str(error.value))
        dist.barrier()
        assert policy == "skip" or not checkpoints(folder)
    return sentences


def made(folder: Path) -> Path:
    if dist.get_rank() == 0:
        folder.mkdir(parents=True)
    dist.barrier()
    return folder


def passes_over(out: Path) -> tuple[list[str], str]:
    """The newest has a damaged file, the one before no marker."""
    newest, before = (path for _, path in checkpoints(out)[1:3])
    dist.barrier()
    if dist.get_rank() == 0:
        content = bytearray((newest / state_name(0)).read_bytes())
        content[-5] ^= 1
        (newest / state_name(0)).write_bytes(content)
        (before / "DONE").unlink()
    dist.barrier()
    told: list[str] = []
    found = agreed(candidates("auto", out, STEPS), told.append)
    return told, found[0].name if found else "none"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Found]:
    folder = tmp_path_factory.mktemp("keeping")
    of_ranks: list[Found] = on_ranks(2, all_of_it, folder, folder)
    return of_ranks


def test_a_checkpoint_is_of_the_moment_at_which_it_was_begun(found: list[Found]) -> None:
    assert [rank.asynchronous for rank in found] == [[True] * 5] * 2


def test_a_skipped_step_leaves_the_weights_as_they_were_on_all_ranks(found: list[Found]) -> None:
    for rank in found:
        told, trained, same = rank.skipped
        assert same
        assert "the norm of the gradient is nan at step 4: its update is left out" in told
        assert len(trained.record.losses) == STEPS - 1
    assert found[0].skipped[1].goodput.skipped_steps == 1
    assert found[0].skipped[1].goodput.seconds["skipped"] > 0


def test_a_rollback_goes_on_with_the_data_behind_the_bad_step(found: list[Found]) -> None:
    for rank in found:
        told, trained, same = rank.rolled_back
        assert same
        assert any("at step 4: back to" in line and "checkpoint_00000002" in line for line in told)
        assert len(trained.record.losses) == STEPS - 2
    assert found[0].rolled_back[1].goodput.rollbacks == 1
    assert found[0].rolled_back[1].goodput.seconds["lost"] > 0


def test_what_cannot_be_helped_ends_in_a_sentence(found: list[Found]) -> None:
    for rank in found:
        skip, rollback, stop, explosion = rank.gave_up
        assert skip.startswith("the norm of the gradient is nan at step 11, and 10 steps before it")
        assert rollback.endswith("after 3 rollbacks to step 0: try a smaller --lr")
        assert stop.startswith("the loss is nan at step ")
        assert stop.endswith("try a smaller --lr")
        assert "where guessing costs 5.545" in explosion or "the loss is nan" in explosion


def test_a_damaged_checkpoint_is_passed_over_with_a_sentence(found: list[Found]) -> None:
    for rank in found:
        told, name = rank.passed_over
        assert len(told) == 2
        assert "state_00000.safetensors is damaged" in told[0]
        assert "has no file DONE" in told[1]
        assert name == "checkpoint_00000002"
