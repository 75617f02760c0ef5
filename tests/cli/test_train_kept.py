"""What train keeps: SIGTERM, --resume auto, and what is refused before any rank starts."""

import signal
from pathlib import Path

import pytest
from command import TORCHRUN, Ended, started, tiny

from forked import forked

KEPT = {"checkpoint_every": 1000000, "out": "run", "quiet": None}
ENDLESS = 10_000_000
FAST = {"precision": "fp32", "val_every": ENDLESS}


def stopped(text: Path, folder: Path, launcher: tuple[str, ...] = (), **given: object) -> Ended:
    """A training that SIGTERM reaches after its first step."""
    words = tiny(text, **(FAST | KEPT | {"steps": ENDLESS} | given))
    with started("train", *words, folder=folder, launcher=launcher) as running:
        for line in running.process.stdout or ():
            if line.startswith("step "):
                break
        running.process.send_signal(signal.SIGTERM)
        return running.end()


def kept(run: Path) -> list[str]:
    return sorted(path.name for path in run.glob("*checkpoint*"))


@pytest.mark.slow
def test_sigterm_ends_in_a_checkpoint_and_auto_goes_on_from_it(text: Path, tmp_path: Path) -> None:
    ended = stopped(text, tmp_path, ranks=2)
    assert ended.code == 128 + signal.SIGTERM
    (name,) = kept(tmp_path / "run")
    step = int(name[-8:])
    assert ended.err == (
        f"steptime: stopped by SIGTERM after step {step}: --resume auto goes on from run/{name}\n"
    )
    assert not (tmp_path / "run" / "run.json").exists()

    given = FAST | KEPT | {"ranks": 2, "steps": step + 2, "resume": "auto", "json": True}
    again = forked("train", *tiny(text, **given), folder=tmp_path)
    assert again.code == 0, again.err
    assert f"goes on from run/{name}" in again.err
    assert again.json["goodput"]["restarts"] == 1
    assert len(again.json["strategies"]["overlapped_sharded"]["loss"]) == 2
    assert kept(tmp_path / "run") == [name, f"checkpoint_{step + 2:08}"]

    done = forked("train", *tiny(text, **given), folder=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.json == again.json

    for words, sentence in (
        ({"resume": None}, f"run holds checkpoint_{step + 2:08}, and this training begins after"),
        ({"steps": step}, f"run/checkpoint_{step + 2:08} is behind step {step}, the last of"),
        ({"hidden": 64, "steps": step + 4}, f"run/{kept(tmp_path / 'run')[1]} holds a model with"),
        ({"out": None}, "--resume auto goes on in the run's folder: name it with --out"),
    ):
        refused = forked("train", *tiny(text, **(given | {"json": None} | words)), folder=tmp_path)
        assert refused.code == 2
        assert refused.err.startswith(f"steptime: {sentence}"), refused.err
        assert kept(tmp_path / "run") == [name, f"checkpoint_{step + 2:08}"]


@pytest.mark.slow
@pytest.mark.parametrize("launcher", [(), TORCHRUN], ids=["alone", "torchrun"])
def test_sigterm_reaches_a_single_rank_and_those_of_torchrun(
    launcher: tuple[str, ...], text: Path, tmp_path: Path
) -> None:
    words = ("--no-python",) if launcher else ()
    ended = stopped(text, tmp_path, launcher=(*launcher, *words))
    assert ended.code != 0
    assert launcher or ended.code == 128 + signal.SIGTERM
    assert "stopped by SIGTERM after step" in ended.err
    assert len(kept(tmp_path / "run")) == 1


def test_a_rollback_without_checkpoints_is_refused(text: Path, tmp_path: Path) -> None:
    ended = forked("train", *tiny(text, on_bad_loss="rollback"), folder=tmp_path)
    assert ended.code == 2
    assert "--on-bad-loss rollback goes back to checkpoints: give --checkpoint-every" in ended.err
