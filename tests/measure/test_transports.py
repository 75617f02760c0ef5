"""Operations on real ranks, over gloo and over MPI."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.command import MPIEXEC
from measure.sweep import broken, sweep
from ranks import on_ranks

OPERATIONS = 10
AT_LEAST = 4 * 2 * 25  # cases, in and out of place, algorithms


def on_gloo():
    import torch

    from steptime.measure.torch_transport import TorchTransport

    transport = TorchTransport(torch.device("cpu"))
    return sweep(transport), broken(transport)


def check(swept, of_broken, ranks):
    assert {name: wrong for name, wrong in swept.items() if wrong} == {}
    assert len(swept) > AT_LEAST
    assert len({name.split()[0] for name in swept}) == OPERATIONS - 1, "a barrier has no data"
    deaf, deaf_in_place, silent, silent_in_place = of_broken
    # A third or a quarter of the sums lacks a contribution, on every rank, in both checks.
    assert deaf == deaf_in_place
    assert deaf == pytest.approx(2 * 1000, rel=0.01)
    assert silent == silent_in_place == 2 * 1000, "the last rank holds nothing, in both checks"
    assert ranks >= 3


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [3, 4])
def test_every_algorithm_is_right_over_gloo_and_a_wrong_one_is_found(ranks, tmp_path):
    results = on_ranks(ranks, on_gloo, tmp_path)
    for swept, of_broken in results:
        check(swept, of_broken, ranks)


@pytest.mark.slow
@pytest.mark.skipif(not MPIEXEC, reason="there is no mpiexec")
def test_every_algorithm_is_right_over_mpi_without_torch():
    script = Path(__file__).with_name("sweep.py")
    done = subprocess.run(
        [MPIEXEC, "-n", "3", sys.executable, script], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    check(results["sweep"], results["broken"], 3)
    assert not results["torch"]
