"""Ranks that compute with more threads than their host has cores, and ranks that share these."""

import os
from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding

TRAINING = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads({threads})
layers = [nn.Linear(512, 512) for _ in range(8)]
model = DistributedDataParallel(nn.Sequential(*layers))
optimizer = torch.optim.AdamW(model.parameters())
torch.manual_seed(rank)
for _ in range(8):
    model(torch.randn(128, 512)).square().mean().backward()
    optimizer.step()  # steps
    optimizer.zero_grad()
dist.destroy_process_group()
"""
CORES = len(os.sched_getaffinity(0))
pytestmark = pytest.mark.skipif(CORES < 2, reason="with one core there is one thread")


def _crowded(folder: Path, threads: int) -> list[Finding]:
    found = findings_of(folder, TRAINING.format(threads=threads))
    return [one for one in found if "OMP_NUM_THREADS" in one.mend]


def test_ranks_that_take_each_others_cores_are_told(tmp_path: Path) -> None:
    (found,) = _crowded(tmp_path, CORES)
    assert (list(found.ranks), marked(found), found.remark) == ([0, 1], {"steps"}, True)
    assert f"with {CORES} threads each on {CORES} cores" in found.what
    assert f"OMP_NUM_THREADS={CORES // 2} " in found.mend


def test_ranks_that_share_the_cores_are_not(tmp_path: Path) -> None:
    assert _crowded(tmp_path, CORES // 2) == []


@pytest.mark.slow
def test_ranks_that_are_bound_to_one_core_are_told(tmp_path: Path) -> None:
    bound = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    found = findings_of(tmp_path, bound + TRAINING.format(threads=1))
    (told,) = (one for one in found if "compute in turns there" in one.what)
    assert (list(told.ranks), marked(told), told.remark) == ([0, 1], {"steps"}, False)
    assert f"of {len(os.sched_getaffinity(1))} that this host has" in told.what
