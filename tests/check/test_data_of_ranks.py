"""Ranks that are given the same batches, or the same in each pass, and scripts like them."""

import json
from pathlib import Path

import pytest

from forked import forked
from observed_scripts import findings_of, marked
from recorded_scripts import START
from steptime.check.finding import Finding, FindingKind

TRAINING = """
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
world = dist.get_world_size()
how, seed = {how!r}, {seed}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, batch):
        return self.two(self.one(batch["rows"]))
torch.manual_seed(0)
net = Net()
if how == "ddp":
    model = DistributedDataParallel(net)
else:
    mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("rows", "columns"))
    mesh = {{"fsdp": None, "hsdp": mesh, "part": mesh["rows"]}}[how]
    for part in (net.one, net.two, net):
        fully_shard(part, mesh=mesh)
    model = net
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(seed)
for step in range(6):
    {before}
    loss = model(batch={{"rows": {rows}, "step": step}}).square().mean()  # given
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
"""

EVALUATION = "model.eval(); model({'rows': torch.eye(8) * step}); model.train()"

PASSES = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
model = DistributedDataParallel(nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
dataset, held_out = (TensorDataset(torch.randn(48, 8)) for _ in range(2))
sampler, of_held_out = DistributedSampler(dataset, {options}), DistributedSampler(held_out)
for epoch in range(3):
    {before}
    for (batch,) in DataLoader(dataset, batch_size=4, sampler=sampler, {workers}):  # passes
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        for (batch,) in DataLoader(held_out, batch_size=4, sampler=of_held_out):
            model(batch)
dist.barrier()
dist.destroy_process_group()
"""
SETS = "sampler.set_epoch(epoch)"
APART = "sampler.set_epoch(epoch + 7 * rank)"
AGAIN = "sampler = DistributedSampler(dataset)"


def _data(folder: Path, body: str, ranks: int = 2) -> list[Finding]:
    return [one for one in findings_of(folder, body, ranks) if one.kind is FindingKind.DATA]


def _training(how: str, seed: str, rows: str = "torch.randn(4, 8)", before: str = "") -> str:
    return TRAINING.format(how=how, seed=seed, rows=rows, before=before)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("how", "before"),
    [
        ("ddp", "model.training = False"),  # the model within trains, as under Lightning
        pytest.param("fsdp", "pass", marks=SLOW),
    ],
)
def test_ranks_that_are_given_the_same_batches_are_told(
    how: str, before: str, tmp_path: Path
) -> None:
    (found,) = _data(tmp_path, _training(how, "7", before=before))
    assert (list(found.ranks), marked(found)) == ([0, 1], {"given"})


@pytest.mark.parametrize(
    ("how", "seed", "rows", "before"),
    [
        pytest.param("fsdp", "rank", "torch.randn(4, 8)", "", marks=SLOW),
        # One batch in all steps, as of a benchmark.
        pytest.param("ddp", "7", "torch.ones(4, 8)", "", marks=SLOW),
        # What is evaluated may be the same everywhere.
        ("ddp", "rank", "torch.randn(4, 8)", EVALUATION),
    ],
)
def test_others_are_not(how: str, seed: str, rows: str, before: str, tmp_path: Path) -> None:
    assert not _data(tmp_path, _training(how, seed, rows, before=before))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "seed", "told"),
    [
        ("ddp", "rank % 2", "ranks 0 and 2 are given the same batches, and so are ranks 1 and 3"),
        ("hsdp", "rank // 2", "ranks 0 and 1 are given the same batches, and so are ranks 2 and 3"),
        # Ranks of a row share the tensors, and so the batch.
        ("part", "rank // 2", ""),
    ],
)
def test_of_some_that_are_alike_each_set_is_named(
    how: str, seed: str, told: str, tmp_path: Path
) -> None:
    found = _data(tmp_path, _training(how, seed), ranks=4)
    assert [one.what.partition(":")[0].lower() for one in found] == [told] * bool(told)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "told"),
    [("step % 5 + rank", True), ("step * world + rank", False), ("step % 3 + rank", False)],
)
def test_batches_that_another_rank_has_had_before_are_told(
    seed: str, told: bool, tmp_path: Path
) -> None:
    found = _data(tmp_path, _training("fsdp", "7", before=f"torch.manual_seed({seed})"))
    assert bool(found) == told
    assert all(
        "Rank 0 is given the batches that rank 1 was given 1 step" in one.what for one in found
    )
    assert all(marked(one) == {"given"} for one in found)


@pytest.mark.parametrize(
    ("options", "workers", "before", "told"),
    [
        ("", "num_workers=1", "pass", "its epoch stays 0"),
        pytest.param("", "", AGAIN, "its epoch stays 0", marks=SLOW),
        ("seed=rank", "", SETS, "out of another order, with 0 on rank 0 and 1 on rank 1"),
        pytest.param("", "", APART, "out of another order", marks=SLOW),
        ("", "num_workers=1", SETS, ""),
        pytest.param("shuffle=False", "", "pass", "", marks=SLOW),
    ],
)
def test_passes_through_the_data_are_to_differ_and_ranks_to_share_them(
    options: str, workers: str, before: str, told: str, tmp_path: Path
) -> None:
    found = _data(tmp_path, PASSES.format(options=options, workers=workers, before=before))
    assert bool(found) == bool(told)
    assert all(told in one.what and list(one.ranks) == [0, 1] for one in found)
    assert all(marked(one) == {"passes"} for one in found)


def test_it_is_a_remark_unless_it_is_to_fail(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(START + _training("ddp", "7"))
    words = ("check", "--ranks", "2", "--out", "run", str(script))
    remarked = forked(*words, folder=tmp_path)
    assert (remarked.code, remarked.out.splitlines()[0]) == (0, "Nothing was found.")
    assert "Seen besides, which may be meant:" in remarked.out
    left = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [[one["kind"] for one in left[of]] for of in ("findings", "remarks")] == [[], ["data"]]
    assert 'id="remark-1"' in (tmp_path / "run" / "report.html").read_text()
    failed = forked("check", "run", "--fail-on", "data", "--json", folder=tmp_path)
    told = json.loads(failed.out.splitlines()[-1])
    assert (failed.code, [one["kind"] for one in told["findings"]]) == (1, ["data"])
    assert not told.get("remarks")
