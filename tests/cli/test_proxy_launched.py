"""The verb proxy as the program of mpirun and of torchrun."""

import json
from pathlib import Path

import pytest
from command import MPIEXEC, STEPTIME, run

from forked import TORCHRUN, forked_python

PIPELINE = ("proxy", "gpt2-124M", "--layers", "2", "--pipeline", "2", "--tokens", "32")
SHORT = ("--scale-bytes", "1/64", "--steps", "3", "--warmup", "1", "--json", "--out", "out")


@pytest.mark.slow
@pytest.mark.skipif(not MPIEXEC, reason="mpiexec (pip install mpich) is missing")
def test_ranks_of_mpirun_need_little_beside_their_buffers(tmp_path: Path) -> None:
    words = (*PIPELINE, *SHORT, "--backend", "mpi")
    ended = run(*words, launcher=(MPIEXEC, "-n", "4"), folder=tmp_path)
    assert ended.code == 0, ended.err
    told = ended.json
    assert (told["launcher"], told["ranks"]) == ("mpirun", 4)
    assert told["axes"]["data"] == told["axes"]["pipeline"] == 2
    for held, of in zip(told["rss_bytes"], told["per_rank"], strict=True):
        assert of["memory_bytes"] < held < of["memory_bytes"] + 100e6  # torch alone is 200 MB
    assert len(told["rank_step_s"]) == 4
    assert told == json.loads((tmp_path / "out" / "run.json").read_text())


def test_ranks_of_torchrun_run_it_too(tmp_path: Path) -> None:
    words = (*PIPELINE, *SHORT, "--compute-time", "2ms")
    ended = forked_python(*TORCHRUN, STEPTIME, *words, folder=tmp_path)
    assert ended.code == 0, ended.err
    told = ended.json
    assert (told["launcher"], told["ranks"]) == ("torchrun", 2)
    assert told["compute"]["stand_in"] == "sleep"
    assert told["step_time_s"]["median"] > 2e-3
