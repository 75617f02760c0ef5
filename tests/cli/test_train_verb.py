"""train from end to end, on ranks that the command starts itself."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import FILES, Ended, options, tiny

from forked import forked

STEPS = 8
FAST = {"precision": "fp32", "lr": 1e-2, "lr_warmup": 0, "lr_schedule": "constant"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("train")


@pytest.fixture(scope="module")
def trained(text: Path, folder: Path) -> Ended:
    """Eight steps on two ranks, with a checkpoint in the middle and one at the end."""
    given = {"ranks": 2, "steps": STEPS, "checkpoint_every": 4, "json": True, "out": "run"}
    return forked("train", *tiny(text, **(FAST | given)), folder=folder)


@pytest.fixture(scope="module")
def answer(trained: Ended) -> dict[str, Any]:
    assert trained.code == 0, trained.err
    return trained.json


def losses(answer: dict[str, Any]) -> list[float]:
    (entry,) = answer["strategies"].values()
    return entry["loss"]


def test_the_loss_falls(answer: dict[str, Any]) -> None:
    assert answer["verb"] == "train"
    assert list(answer["strategies"]) == ["overlapped_sharded"]
    loss = losses(answer)
    assert len(loss) == STEPS
    assert loss[0] > 5
    assert loss[-1] < loss[0] - 1
    assert loss[-1] - 1 < answer["val_loss"] < loss[0] - 1


def test_the_held_out_loss_is_that_of_the_last_look(answer: dict[str, Any]) -> None:
    looks = answer["validation"]
    assert [look["step"] for look in looks] == list(range(1, STEPS + 1))
    assert looks[-1]["loss"] == answer["val_loss"]


def test_the_wall_time_is_told_by_its_causes(answer: dict[str, Any], trained: Ended) -> None:
    goodput = answer["goodput"]
    assert {"steps", "starting", "validation", "checkpoints"} <= goodput["seconds"].keys()
    assert sum(goodput["seconds"].values()) == pytest.approx(goodput["wall_s"])
    assert goodput["share"] == pytest.approx(goodput["seconds"]["steps"] / goodput["wall_s"])
    assert (goodput["restarts"], goodput["skipped_steps"]) == (0, 0)
    assert re.search(r"in steps that count; .*\bstarting \d", trained.err)


def test_progress_goes_to_stderr_under_json(trained: Ended) -> None:
    assert f"step {STEPS}/{STEPS} | loss " in trained.err
    assert f"checkpoint: run/checkpoint_{STEPS:08}\n" in trained.err


def test_checkpoints_are_whole(answer: dict[str, Any], folder: Path) -> None:
    assert answer["run"] == "run"
    folders = [f"checkpoint_{step:08}" for step in (4, 8)]
    assert sorted(path.name for path in (folder / "run").iterdir()) == sorted(
        [*FILES, "goodput.json", "text.json", *folders]
    )
    for name in folders:
        files = sorted(path.name for path in (folder / "run" / name).iterdir())
        assert files == ["DONE", "model.bin", *(f"state_0000{rank}.safetensors" for rank in (0, 1))]


@pytest.mark.parametrize(
    ("ranks", "strategy", "tolerance"),
    [
        (2, "overlapped_sharded", 0),
        pytest.param(1, "server", 1e-4, marks=pytest.mark.slow),
    ],
)
def test_a_resumed_training_goes_on_as_if_it_had_never_stopped(
    answer: dict[str, Any], text: Path, folder: Path, ranks: int, strategy: str, tolerance: float
) -> None:
    given = {"ranks": ranks, "strategy": strategy, "steps": STEPS, "json": True}
    words = tiny(text, **(FAST | given | {"layers": None, "heads": None, "hidden": None}))
    words += options(resume="run/checkpoint_00000004", out=f"resumed-{ranks}")
    ended = forked("train", *words, folder=folder)
    assert ended.code == 0, ended.err
    assert f"step 5/{STEPS} | loss " in ended.err
    assert losses(ended.json) == pytest.approx(losses(answer)[4:], rel=tolerance, abs=0)
    assert ended.json["val_loss"] == pytest.approx(answer["val_loss"], rel=tolerance, abs=0)


def test_a_finished_training_is_not_resumed(
    answer: dict[str, Any], text: Path, folder: Path
) -> None:
    words = tiny(text, steps=STEPS, resume=f"{answer['run']}/checkpoint_{STEPS:08}", out="nothing")
    ended = forked("train", *words, folder=folder)
    assert ended.code == 2
    assert f"checkpoint_{STEPS:08} is at step 8 and --steps is 8: ask for more" in ended.err
    assert not (folder / "nothing").exists()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"hidden": 64}, "--hidden is 64, and 32 in the checkpoint: leave it out"),
        ({"init": "weights.bin"}, "--init and --resume both say where the weights come from"),
    ],
)
def test_what_contradicts_the_checkpoint_is_refused(
    answer: dict[str, Any], given: dict[str, object], sentence: str, text: Path, folder: Path
) -> None:
    (folder / "weights.bin").write_bytes(
        (folder / answer["run"] / "checkpoint_00000008" / "model.bin").read_bytes()
    )
    words = tiny(text, **({"layers": None, "heads": None, "hidden": None} | given))
    words += options(resume="run/checkpoint_00000004", out="refused")
    ended = forked("train", *words, folder=folder)
    assert ended.code == 2
    assert ended.err.startswith(f"steptime: {sentence}")
    assert not (folder / "refused").exists()


def test_it_starts_from_weights_in_llm_c_format(
    answer: dict[str, Any], text: Path, folder: Path
) -> None:
    given = FAST | {"lr": 1e-12, "steps": 1, "layers": None, "heads": None, "hidden": None}
    words = tiny(text, **given, init="run/checkpoint_00000008/model.bin", out="started", json=True)
    ended = forked("train", *words, folder=folder)
    assert ended.code == 0, ended.err
    assert ended.json["val_loss"] == pytest.approx(answer["val_loss"], rel=1e-5)


def test_a_person_reads_how_it_goes(text: Path, tmp_path: Path) -> None:
    ended = forked("train", *tiny(text), folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].startswith("GPT-2 of 21,984 parameters on")
    assert "step 2/2 | loss " in ended.out
    assert lines[-1].startswith("report: runs/train-")
    assert max(len(line) for line in lines[lines.index("") : -1]) <= 80
    assert "\x1b" not in ended.out


@pytest.mark.slow
def test_it_trains_quietly_on_token_shards(shards: Path, tmp_path: Path) -> None:
    ended = forked("train", *tiny(shards, steps=1, quiet=True, json=True), folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["model_config"]["vocabulary"] == 50257
    assert losses(ended.json)[0] == pytest.approx(np.log(50257), rel=0.02)
