"""What a rank keeps besides parameters: running statistics, keys of a store, parts of a layer."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

STATISTICS = """
from torch import nn
way = {way!r}

class Normaliser(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, given):
        mean = given.mean(0)
        if way == "reduced":
            dist.all_reduce(mean)
            mean /= 2
        self.mean = 0.9 * self.mean + 0.1 * mean
        return given - self.mean

torch.manual_seed(0)
own = nn.BatchNorm1d(4) if way == "of PyTorch" else Normaliser()
model = nn.Linear(4, 4)
if way == "each trains alone":
    torch.manual_seed(rank)
    model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(1 + rank)
for _ in range(6):
    model(own(torch.randn(16, 4))).square().mean().backward()  # runs
    for one in model.parameters():
        if way != "each trains alone":
            dist.all_reduce(one.grad)
            one.grad /= 2
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""

BARRIERS = """
way = {way!r}
store = dist.distributed_c10d._get_default_store()
for number in range(4):
    key = f"done{{number}}" if way == "numbered" else "done"
    if way == "a file is ready":
        if rank == 0 and number == 0:
            store.set(key, "1")
    elif store.add("count" + key, 1) % 2 == 0:
        store.set(key, "1")
    store.wait([key])  # waits
    dist.barrier()
    if way == "deleted" and rank == 0:
        store.delete_key(key)
    dist.barrier()
dist.destroy_process_group()
"""

FUSED = """
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
way = {way!r}

class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.both = nn.Linear(8, 16, bias=False)
        self.last = nn.Linear(8, 8, bias=False)

    def forward(self, given):
        both = self.both(given)
        if way == "by heads":
            both = both.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
        one, other = both.chunk(2, dim=-1)
        return self.last(one * other)

torch.manual_seed(0)
mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
plan = {{"both": ColwiseParallel(), "last": RowwiseParallel()}}
model = Gated() if way == "not parallel" else parallelize_module(Gated(), mesh, plan)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    loss = model(torch.randn(4, 8)).square().mean()
    loss.backward()  # begins
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def _told(folder: Path, script: str, way: str, words: str) -> list[Finding]:
    return [one for one in findings_of(folder, script.format(way=way)) if words in one.what]


@pytest.mark.parametrize(
    ("script", "way", "words", "kind", "line"),
    [
        (STATISTICS, "each its own", "are not the same on ranks", FindingKind.DATA, "runs"),
        (BARRIERS, "one key", "it is a barrier once", FindingKind.RACE, "waits"),
        (FUSED, "cut", "as if it were the whole", FindingKind.DATA, "begins"),
    ],
)
def test_what_is_of_a_rank_alone_is_told(
    script: str, way: str, words: str, kind: FindingKind, line: str, tmp_path: Path
) -> None:
    (one,) = _told(tmp_path, script, way, words)
    assert one.kind is kind
    assert one.remark is (kind is FindingKind.DATA)
    assert one.ranks == [0, 1]
    assert marked(one) == {line}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "way", "words"),
    [
        *((STATISTICS, way, "are not the same") for way in ("reduced", "of PyTorch")),
        (STATISTICS, "each trains alone", "mean of Normaliser"),
        *((BARRIERS, way, "a barrier once") for way in ("numbered", "deleted", "a file is ready")),
        *((FUSED, way, "were the whole") for way in ("by heads", "not parallel")),
    ],
)
def test_what_is_the_same_or_meant_is_left_alone(
    script: str, way: str, words: str, tmp_path: Path
) -> None:
    assert not _told(tmp_path, script, way, words)
