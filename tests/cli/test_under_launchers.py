"""The command as the program of torchrun and of mpirun."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command import FILES, MPIEXEC, STEPTIME, Ended, run, tiny

from forked import TORCHRUN, forked_python


def torchrun(*words: str, folder: Path) -> Ended:
    """The command under torchrun, whose ranks are forked."""
    return forked_python(*TORCHRUN, STEPTIME, *words, folder=folder)


def mpirun(*words: str, folder: Path) -> Ended:
    """The command under mpirun."""
    return run(*words, launcher=(MPIEXEC, "-n", "2"), folder=folder)


NEEDS_MPI = pytest.mark.skipif(not MPIEXEC, reason="mpiexec (pip install mpich) is missing")
LAUNCHERS = [
    pytest.param(torchrun, "torchrun", id="torchrun"),
    pytest.param(mpirun, "mpirun", id="mpirun", marks=NEEDS_MPI),
]
LATER = pytest.param(mpirun, "mpirun", id="mpirun", marks=[NEEDS_MPI, pytest.mark.slow])


@pytest.mark.parametrize(("launched", "name"), [LAUNCHERS[0], LATER])
def test_compare_under_a_launcher_prints_one_json_object(
    launched: Callable[..., Ended], name: str, text: Path, tmp_path: Path
) -> None:
    words = tiny(text, ranks=2, strategies="server,overlapped", json=True, out="run")
    ended = launched("compare", *words, folder=tmp_path)
    assert ended.code == 0, ended.err
    assert (ended.json["launcher"], ended.json["ranks"]) == (name, 2)
    assert list(ended.json["strategies"]) == ["server", "overlapped"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == FILES


@pytest.mark.slow
@pytest.mark.parametrize(("launched", "name"), LAUNCHERS)
def test_train_under_a_launcher_prints_one_table_and_leaves_one_folder(
    launched: Callable[..., Ended], name: str, text: Path, tmp_path: Path
) -> None:
    words = tiny(text, checkpoint_every=1)
    ended = launched("train", *words, folder=tmp_path)
    assert ended.code == 0, ended.err
    assert len(re.findall(r"^step 2/2 \| loss", ended.out, re.MULTILINE)) == 1
    assert len(re.findall(r"^report: runs/train-", ended.out, re.MULTILINE)) == 1
    (folder,) = (tmp_path / "runs").iterdir()
    assert json.loads((folder / "run.json").read_text())["launcher"] == name
    checkpoints = [f"checkpoint_{step:08}" for step in (1, 2)]
    kept = [*checkpoints, "goodput.json", "text.json"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES + kept)
    assert (folder / checkpoints[1] / "DONE").exists()
    assert (folder / checkpoints[1] / "state_00001.safetensors").exists()


@pytest.mark.parametrize(("launched", "name"), [LAUNCHERS[0], LATER])
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"ranks": 3}, "--ranks 3 disagrees with {name}, which started 2"),
        pytest.param(
            {"batch": 3}, "--batch 3 does not divide among 2 ranks", marks=pytest.mark.slow
        ),
    ],
)
def test_what_cannot_be_done_is_refused_under_a_launcher(
    launched: Callable[..., Ended],
    name: str,
    given: dict[str, object],
    sentence: str,
    text: Path,
    tmp_path: Path,
) -> None:
    words = tiny(text, **given, json=True, out="run")
    ended = launched("compare", *words, folder=tmp_path)
    assert f"steptime: {sentence.format(name=name)}" in ended.err
    assert "steptime/cli" not in ended.err
    if name == "torchrun":  # which ends with 1 whatever its ranks end with
        assert (ended.code, "(exitcode: 2)" in ended.err) == (1, True)
    else:
        assert ended.code == 2
    # A launcher that hears of rank 1 first may end rank 0 before it says anything.
    assert not ended.out or ended.json["error"].startswith(sentence.format(name=name))
    assert not (tmp_path / "run").exists()
