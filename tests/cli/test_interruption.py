"""Ranks that die and commands that are stopped: the rest ends too, and no half file is left."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command import HANG_S, Running, run, started, tiny, within

ENDLESS = {"ranks": 2, "steps": 10_000_000, "out": "run"}


@contextmanager
def training(text: Path, folder: Path, **given: object) -> Iterator[Running]:
    """A training that has taken its first step."""
    words = tiny(text, **(ENDLESS | given))
    progress = "stderr" if "json" in given else "stdout"
    with started("train", *words, folder=folder) as running:
        for line in getattr(running.process, progress):
            if line.startswith("step "):
                break
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_is_named(rank: int, text: Path, tmp_path: Path) -> None:
    with training(text, tmp_path, json=True) as running:
        os.kill(running.pid_of_rank(rank), signal.SIGKILL)
        ended = running.end()
    assert ended.code == 1
    assert ended.json["error"].startswith(f"rank {rank} was killed by SIGKILL")
    assert ended.err.splitlines()[-1] == f"steptime: {ended.json['error']}"
    assert "Traceback" not in ended.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_command_that_is_stopped_stops_its_ranks(
    ranks: int, number: signal.Signals, text: Path, tmp_path: Path
) -> None:
    with training(text, tmp_path, ranks=ranks) as running:
        running.process.send_signal(number)
        ended = running.end()
    # A single rank is the command itself, which SIGTERM ends as it ends any process.
    assert ended.code == (-number if ranks == 1 and number == signal.SIGTERM else 128 + number)
    assert ended.err == ""
    assert not list((tmp_path / "run").glob("*"))


def test_ranks_do_not_outlive_a_command_that_is_killed(text: Path, tmp_path: Path) -> None:
    with training(text, tmp_path) as running:
        # The command, what it forks, and two ranks; the command may have asked git, too.
        within(HANG_S, lambda: len(running.pids()) == 4)
        running.process.kill()
        ended = running.end()
    assert ended.code == -signal.SIGKILL
    assert not list((tmp_path / "run").iterdir())


@pytest.mark.slow
def test_a_training_that_is_killed_can_be_resumed_from_its_last_checkpoint(
    text: Path, tmp_path: Path
) -> None:
    def checkpoints() -> list[Path]:
        return list(tmp_path.glob("run/checkpoint_*/DONE"))

    with training(text, tmp_path, checkpoint_every=1, steps=1_000_000) as running:
        within(HANG_S, lambda: len(checkpoints()) > 1)
        os.kill(running.pid_of_rank(0), signal.SIGKILL)
        running.end()
    last = max(checkpoints()).parent
    given = {"steps": int(last.name[-8:]) + 2, "out": "again", "quiet": True}
    words = tiny(text, **(ENDLESS | given), resume=last)
    ended = run("train", *words, folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    record = json.loads((tmp_path / "again" / "run.json").read_text())
    assert len(record["strategies"]["overlapped_sharded"]["loss"]) == 2
