"""--jobs and --cache of a simulated study: the same answer from anybody, and one that goes on."""

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from command import HANG_S, MPIEXEC, here, run, started, within

RANKS = (8, 16, 24, 32, 40, 48)
STUDY = ("gpt2-124M", "--cluster", "dgx-h100-pod", "--ranks", ",".join(map(str, RANKS)))
POOL = (MPIEXEC, "-n", "3", sys.executable, "-m", "mpi4py.futures")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The cells as this process simulates them."""
    ended = here("scale", *STUDY, "--json", folder=tmp_path_factory.mktemp("alone"))
    assert ended.code == 0, ended.err
    return ended.json["cells"]


@pytest.mark.slow
def test_a_study_that_is_killed_goes_on_where_it_stopped(
    alone: list[dict[str, Any]], tmp_path: Path
) -> None:
    words = ("scale", *STUDY, "--jobs", "2", "--cache", "kept")
    with started(*words, "--out", "killed", folder=tmp_path) as running:
        within(HANG_S, lambda: len([*tmp_path.glob("kept/*.point")]) > 1)
        running.process.send_signal(signal.SIGKILL)
        running.end()  # its processes leave too
    kept = len([*tmp_path.glob("kept/*.point")])
    assert 1 < kept < len(RANKS)
    ended = run(*words, "--out", "whole", folder=tmp_path)
    assert ended.code == 0
    assert ended.err == f"{kept} of {len(RANKS)} points are those that kept keeps\n"
    assert len([*tmp_path.glob("whole/cells/*/trace.json.gz")]) == len(RANKS)
    again = here("scale", *STUDY, "--cache", "kept", "--json", folder=tmp_path)
    assert (again.json["cells"], again.err) == (alone, "")


@pytest.mark.slow
def test_a_study_that_is_interrupted_ends_its_processes(tmp_path: Path) -> None:
    words = ("scale", *STUDY, "--jobs", "2", "--cache", "kept", "--out", "out")
    with started(*words, folder=tmp_path) as running:
        within(HANG_S, lambda: [*tmp_path.glob("kept/*.point")])
        running.process.send_signal(signal.SIGINT)
        ended = running.end()
    assert (ended.code, ended.err) == (130, "")
    assert not (tmp_path / "out" / "run.json").exists()


@pytest.mark.slow
@pytest.mark.skipif(not MPIEXEC, reason="mpiexec (pip install mpich) is missing")
def test_ranks_of_mpi_give_the_same(alone: list[dict[str, Any]], tmp_path: Path) -> None:
    ended = run("scale", *STUDY, "--json", launcher=POOL, folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["cells"] == alone


def test_a_pool_refuses_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steptime.points.mpi.is_pool", lambda: True)
    ended = here("scale", *STUDY, "--jobs", "2", folder=tmp_path)
    assert ended.code == 2
    assert "the ranks of mpi4py.futures take the points: leave it out" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_copies_of_one_study_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PMI_RANK": 0, "PMI_SIZE": 4}.items():
        monkeypatch.setenv(name, str(value))
    ended = here("scale", *STUDY, folder=tmp_path)
    assert ended.code == 2
    assert re.search(r"4 processes would each .*: write mpirun -n 4 python -m mpi4py", ended.err)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--jobs", "2"), "--jobs is for simulated points, and a training here needs the machine"),
        (("--cache", "kept"), "--cache is for simulated points"),
        ((*STUDY, "--jobs", "0"), "--jobs is 0: it must be at least 1"),
        ((*STUDY, "--cache", os.devnull), "cannot keep points in /dev/null: File exists"),
    ],
)
def test_bad_options_are_one_sentence(
    words: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    ended = here("scale", *words, folder=tmp_path)
    assert ended.code == 2
    assert sentence in ended.err
    assert ended.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
