"""What is kept of a training, layout by layout, without the ranks of one."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from steptime.errors import UsageError
from steptime.train.config import trainable
from steptime.train.keeping import goodput
from steptime.train.keeping.choice import candidates, likely
from steptime.train.keeping.folders import (
    check_free_for,
    check_room,
    checkpoint_path,
    checkpoints,
    discard,
    prune,
    sweep,
)
from steptime.train.keeping.goodput import Ledger
from steptime.train.keeping.losses import problem_of
from steptime.train.keeping.marker import (
    CheckpointInfo,
    FileSum,
    read_marker,
    state_name,
    summed,
    write_marker,
)
from steptime.train.keeping.pieces import Part, Piece, check_cover, whole
from steptime.train.keeping.state import read_weights
from steptime.train.keeping.state_file import FIELDS, write_state_file
from steptime.train.parallel.shard import Shard, shard_of

MODEL = trainable("llama-nano").padded()
WEIGHTS = {
    tensor.name: np.random.default_rng(number).random(tensor.shape, np.float32)
    for number, tensor in enumerate(t for unit in MODEL.units for t in unit.tensors)
}


def part_of(shard: Shard) -> Part:
    boxes = tuple(tuple((one.start, one.stop) for one in box) for box in shard.boxes)
    return Part(shard.tensor.name, shard.tensor.shape, boxes, shard.dim)


def pieces_of(rank: int, tensor_ranks: int, data_ranks: int) -> Iterator[Piece]:
    """What a rank keeps where tensors are shared by some ranks, and each share by others."""
    shared, replica = rank % tensor_ranks, rank // tensor_ranks
    for tensor in (t for unit in MODEL.units for t in unit.tensors):
        part = part_of(shard_of(MODEL, tensor, tensor_ranks, shared))
        if part.size == tensor.size and shared:
            continue  # all ranks along tensor have it whole, and the first keeps it
        start, stop = (part.size * n // data_ranks for n in (replica, replica + 1))
        yield Piece(part, start, stop - start, 7)


def write(folder: Path, step: int, tensor_ranks: int = 1, data_ranks: int = 1) -> CheckpointInfo:
    """A checkpoint as so many ranks would leave it."""
    folder.mkdir()
    for rank in range(tensor_ranks * data_ranks):
        listed: list[tuple[Piece, dict[str, NDArray[np.float32]]]] = []
        for piece in pieces_of(rank, tensor_ranks, data_ranks):
            flat = piece.part.cut(WEIGHTS[piece.part.tensor])[piece.start : piece.stop]
            listed.append((piece, dict.fromkeys(FIELDS, flat)))
        write_state_file(folder / state_name(rank), listed)
    info = CheckpointInfo(
        step=step,
        batch=step,
        ranks=tensor_ranks * data_ranks,
        strategy="sharded",
        precision="fp32",
        seed=0,
        config=trainable("llama-nano"),
        loss_scale=None,
        files={path.name: summed(path) for path in folder.iterdir()},
    )
    write_marker(folder, info)
    return info


@pytest.mark.parametrize(("tensor_ranks", "data_ranks"), [(1, 1), (1, 3), (2, 1), (2, 3)])
def test_every_layout_makes_up_the_same_tensors(
    tmp_path: Path, tensor_ranks: int, data_ranks: int
) -> None:
    info = write(tmp_path / "kept", 7, tensor_ranks, data_ranks)
    assert read_marker(tmp_path / "kept") == info
    weights = read_weights(tmp_path / "kept", info)
    assert weights.keys() == WEIGHTS.keys()
    assert all(np.array_equal(weights[name], WEIGHTS[name]) for name in WEIGHTS)


@pytest.mark.parametrize(
    ("pieces", "problem"),
    [
        ([], "a is not whole"),
        ([Piece(whole("a", (4, 6)), 0, 23, 1)], "a is not whole"),
        ([Piece(whole("a", (4, 6)), 0, 14, 1), Piece(whole("a", (4, 6)), 13, 11, 1)], "not whole"),
        ([Piece(whole("a", (6, 4)), 0, 24, 1)], "another tensor"),
        ([Piece(whole("a", (4, 6)), 0, 24, 1), Piece(whole("b", (1,)), 0, 1, 1)], "has not"),
        ([Piece(Part("a", (4, 6), (((0, 4), (0, 3)),), 1), 0, 12, 1)], "a is not whole"),
        ([Piece(Part("a", (4, 6), (((0, 4), (0, 3)), ((0, 4), (2, 5))), 1), 0, 24, 1)], "whole"),
        ([Piece(Part("a", (4, 6), (((0, 4), (0, 7)),), 1), 0, 28, 1)], "another tensor"),
        ([Piece(Part("a", (4, 6), (((0, 4), (0, 3)), ((0, 3), (3, 6))), 1), 0, 21, 1)], "another"),
        ([Piece(Part("a", (4, 6), (), 0), 0, 0, 1)], "another tensor"),
    ],
)
def test_pieces_that_do_not_cover_a_tensor_once_are_refused(
    pieces: list[Piece], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        check_cover(pieces, {"a": (4, 6)})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder with checkpoints after 2, 4, 6 and 8 steps, and one half written."""
    folder = tmp_path / "run"
    folder.mkdir()
    write(checkpoint_path(folder, 2), 2)
    for step in (4, 6, 8):
        shutil.copytree(checkpoint_path(folder, 2), checkpoint_path(folder, step))
    (folder / ".checkpoint_00000010").mkdir()
    (folder / ".checkpoint_00000002.old").mkdir()
    (folder / "checkpoint_final").mkdir()
    return folder


def steps(run: Path) -> list[int]:
    return [step for step, _ in checkpoints(run)]


def test_the_newest_checkpoints_stay_and_the_last_step_does_not_count(run: Path) -> None:
    assert steps(run) == [8, 6, 4, 2]
    prune(run, 2, step=8, last_step=8)
    assert steps(run) == [8, 6, 4]
    prune(run, 1, step=4, last_step=100)
    assert steps(run) == [8, 6, 4]
    prune(run, 1, step=8, last_step=100)
    assert steps(run) == [8]
    sweep(run)
    assert sorted(path.name for path in run.iterdir()) == [
        "checkpoint_00000008",
        "checkpoint_final",
    ]


def test_a_folder_with_something_else_in_it_is_not_removed(run: Path) -> None:
    (checkpoint_path(run, 2) / "thesis.tex").touch()
    with pytest.raises(OSError, match="holds something else"):
        discard(checkpoint_path(run, 2))
    prune(run, 1, step=8, last_step=100)
    assert steps(run) == [8, 2]
    assert (checkpoint_path(run, 2) / "thesis.tex").exists()


def test_what_a_resumed_run_may_go_on_from(run: Path) -> None:
    newest, before, *_ = (path for _, path in checkpoints(run))
    assert candidates(None, run, 8).folders == []
    assert candidates("auto", run, 9).folders[0] == newest
    assert candidates("auto", run, 8).folders[0] == before  # the last step makes the answer
    assert candidates(run, Path("elsewhere"), 8).folders[0] == newest
    assert candidates(newest, Path("elsewhere"), 8).folders == [newest]
    assert likely(candidates("auto", run.parent / "none", 8)) is None
    with pytest.raises(UsageError, match="behind step 7"):
        candidates("auto", run, 7)

    state = newest / state_name(0)
    state.write_bytes(state.read_bytes()[:-1])
    found = likely(candidates("auto", run, 9))
    assert found
    assert found[0] == before
    with pytest.raises(UsageError, match=r"had .* when written"):
        likely(candidates(newest, run, 9))
    for _, path in checkpoints(run):
        (path / "DONE").unlink()
    assert likely(candidates("auto", run, 9)) is None
    with pytest.raises(UsageError, match="checkpoint_00000008 is no complete checkpoint"):
        likely(candidates(run, run, 9))


def test_a_run_does_not_begin_among_checkpoints_of_another(run: Path, tmp_path: Path) -> None:
    check_free_for(tmp_path / "new", 0)
    check_free_for(run, 8)
    with pytest.raises(UsageError, match=r"holds checkpoint_00000008, .* --resume auto"):
        check_free_for(run, 4)


def test_a_disk_that_cannot_take_a_checkpoint_is_named_before(tmp_path: Path) -> None:
    check_room(tmp_path / "new" / "run", 1)
    with pytest.raises(UsageError, match="make room, or choose another --out"):
        check_room(tmp_path / "new" / "run", 1 << 60)


def test_a_marker_names_files_of_a_checkpoint_alone(run: Path) -> None:
    folder = checkpoint_path(run, 2)
    (folder / "passwd").touch()
    known = read_marker(folder).__dict__
    write_marker(folder, CheckpointInfo(**known | {"files": {"passwd": FileSum(0, "")}}))
    with pytest.raises(UsageError, match="'passwd' that no checkpoint has"):
        read_marker(folder)


def test_what_is_a_bad_loss_depends_on_nothing_before() -> None:
    assert problem_of(5.5, 3, vocabulary=256) is None
    assert problem_of(float("nan"), 3, vocabulary=256) == "the loss is nan at step 3"
    assert problem_of(17.0, 3, 256) == "the loss is 17 at step 3, where guessing costs 5.545"


def test_every_second_of_a_run_has_one_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1010.0]
    monkeypatch.setattr(goodput, "time", SimpleNamespace(time=lambda: now[0]))

    def spend(ledger: Ledger, cause: goodput.Cause, seconds: float) -> None:
        now[0] += seconds
        ledger.charge(cause)

    first = Ledger(tmp_path, began=1000.0)
    first.go_on_from(0)
    spend(first, "starting", 0)
    spend(first, "steps", 5)
    first.enter(2)  # at 1015
    spend(first, "steps", 4)
    spend(first, "skipped", 1)
    first.enter(4)  # at 1020, and then it is killed
    now[0] = 1030.0
    second = Ledger(tmp_path, began=1027.0)
    second.go_on_from(2)  # the newest one was damaged
    spend(second, "starting", 0)
    spend(second, "steps", 6)
    second.enter(4)
    spend(second, "steps", 3)
    now[0] += 1
    second.roll_back(4)
    spend(second, "steps", 2)
    found = second.closed()
    assert found.seconds == {"starting": 13, "steps": 5 + 6 + 2, "lost": 12 + 4, "other": 0}
    assert found.wall_s == now[0] - 1000
    assert found.share == 13 / found.wall_s
    assert (found.restarts, found.rollbacks, found.skipped_steps) == (1, 1, 0)
    assert "31.0 % of 42.0 s in steps that count; lost" in found.sentence
    (tmp_path / goodput.FILE).write_text("{")
    assert Ledger(tmp_path, began=now[0]).closed().restarts == 0
