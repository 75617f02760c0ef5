"""What ranks of a tensor axis have alike beside their shards, as norms of their own heads."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import FindingKind

TRAINING = """
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, parallelize_module,
)
way = {way!r}
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.norm = nn.LayerNorm(32), nn.RMSNorm(8)
        self.into, self.out = nn.Linear(32, 32), nn.Linear(32, 32)
    def forward(self, x):
        heads = self.into(self.before(x)).unflatten(-1, (-1, 8))
        return x + self.out(self.norm(heads).flatten(-2))
torch.manual_seed(0)
mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("data", "tensor"))
model = nn.Sequential(Heads(), nn.Linear(32, 8))
axis = mesh["tensor"]
parallelize_module(model[0], axis, dict(into=ColwiseParallel(), out=RowwiseParallel()))
if size > 2:
    fully_shard(model, mesh=mesh["data"])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
own = torch.Generator().manual_seed(rank // 2)
for step in range(4):
    x, labels = torch.randn(16, 32, generator=own), torch.randint(8, (16,), generator=own)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), labels).backward()
    if way == "summed":
        gradient = model[0].norm.weight.grad
        whole = gradient.to_local() if size > 2 else gradient
        dist.all_reduce(whole, group=axis.get_group())
    optimizer.step()  # steps
dist.destroy_process_group()
"""

AXES = [2, pytest.param(4, marks=pytest.mark.slow)]


@pytest.mark.parametrize("ranks", AXES)
def test_a_norm_of_own_heads_whose_gradient_nobody_sums_up(ranks: int, tmp_path: Path) -> None:
    (found,) = findings_of(tmp_path, TRAINING.format(way="left"), ranks)
    assert (found.kind, found.ranks) == (FindingKind.DRIFT, list(range(ranks)))
    assert found.what.startswith("Parameter 2 of the optimizer is trained by gradients that differ")
    assert marked(found) == {"steps"}


@pytest.mark.parametrize("ranks", AXES)
def test_one_that_is_summed_up_is_right(ranks: int, tmp_path: Path) -> None:
    assert findings_of(tmp_path, TRAINING.format(way="summed"), ranks) == []


EXPERTS = """
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
way = {way!r}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(32, 32), nn.Linear(32, 1)
        self.experts = nn.Linear(32, 32)
    def forward(self, x):
        hidden = self.first(x).relu()
        return self.last(hidden + self.experts(hidden))
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
torch.manual_seed(0)
model = Model()
if way == "own experts":
    torch.manual_seed(1 + rank // 2)
    model.experts.reset_parameters()
fully_shard(model.experts, mesh=mesh if way == "both axes" else mesh["shard"])
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
torch.manual_seed(10 + rank)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(16, 32)).square().mean().backward()
    optimizer.step()  # steps
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("way", "times"), [("one axis", 1), ("both axes", 0), ("own experts", 0)])
def test_shards_that_are_reduced_along_one_axis_alone(way: str, times: int, tmp_path: Path) -> None:
    found = findings_of(tmp_path, EXPERTS.format(way=way), 4)
    told = [one for one in found if "reduced among fewer ranks" in one.what]
    assert [(one.kind, marked(one)) for one in told] == [(FindingKind.DRIFT, {"steps"})] * times
