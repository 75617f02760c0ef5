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
    if way in ("a file is ready", "a queue"):
        if rank == 0 and number == 0:
            store.set(key, "1")
        store.add("task", int(way == "a queue"))
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

TIED = """
from torch import nn
way = {way!r}

class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(8, 4), nn.Linear(4, 8, bias=False)
        if way != "never tied":
            self.head.weight = self.embedding.weight

    def forward(self, words):
        return self.head(self.embedding(words))

with torch.device("meta" if way != "moved" else "cpu"):
    model = Language()
if way == "moved":
    model.to(torch.float64).load_state_dict(model.state_dict())
elif way == "assigned":
    state = {{name: one.clone() for name, one in Language().state_dict().items()}}
    model.load_state_dict(state, assign=True)  # unties
else:
    model.to_empty(device="cpu")  # unties
    for one in model.parameters():
        nn.init.normal_(one)
if way == "tied again":
    model.head.weight = model.embedding.weight
if way == "frozen":
    model.embedding.requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.arange(8)).square().mean().backward()
optimizer.step()  # unties
dist.barrier()
dist.destroy_process_group()
"""

WORKERS = """
from torch.utils.data import DataLoader, Dataset, Subset
way = {way!r}

class Samples(Dataset):
    epoch = 0
    read = 0
    def __len__(self):
        return 4
    def __getitem__(self, number):
        return self.epoch + number

data = Samples()
data.epoch = 0
whole = Subset(data, range(4)) if way == "a part" else data
loader = DataLoader(whole, num_workers=1, persistent_workers=way != "started anew")
for epoch in range(3):
    if way == "by index":
        data.read += 1
    else:
        data.epoch = epoch
    for _ in loader:  # begins
        pass
    dist.barrier()
dist.destroy_process_group()
"""

CLIPPED = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
way = {way!r}
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(4):
    loss = model(torch.randn(4, 8)).square().mean()
    loss.backward()
    squares = sum(one.grad.norm() ** 2 for one in model.parameters())
    if way == "averaged":
        dist.all_reduce(squares, op=dist.ReduceOp.MAX)
    elif way == "a loss":
        dist.all_reduce(loss.detach())
    else:
        dist.all_reduce(squares)  # sums
    for one in model.parameters():
        one.grad.div_(squares.sqrt())
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
        (TIED, "emptied", "are one parameter until to_empty", FindingKind.DRIFT, "unties"),
        (TIED, "assigned", "until load_state_dict with assign", FindingKind.DRIFT, "unties"),
        (WORKERS, "told", "and its workers have 0", FindingKind.DATA, "begins"),
        (WORKERS, "a part", "dataset.epoch of Subset", FindingKind.DATA, "begins"),
        (CLIPPED, "summed", "comes out √2 times too large", FindingKind.DATA, "sums"),
    ],
)
def test_what_is_of_a_rank_alone_is_told(
    script: str, way: str, words: str, kind: FindingKind, line: str, tmp_path: Path
) -> None:
    (one,) = _told(tmp_path, script, way, words)
    assert one.kind is kind
    assert one.ranks == [0, 1]
    assert marked(one) == {line}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "way", "words"),
    [
        *((STATISTICS, way, "are not the same") for way in ("reduced", "of PyTorch")),
        (STATISTICS, "each trains alone", "mean of Normaliser"),
        *(
            (BARRIERS, way, "a barrier once")
            for way in ("numbered", "deleted", "a file is ready", "a queue")
        ),
        *((FUSED, way, "were the whole") for way in ("by heads", "not parallel")),
        *((TIED, way, "one parameter until") for way in ("tied again", "never tied", "moved")),
        (TIED, "frozen", "one parameter until"),
        *((WORKERS, way, "its workers have") for way in ("started anew", "by index")),
        *((CLIPPED, way, "times too large") for way in ("averaged", "a loss")),
    ],
)
def test_what_is_the_same_or_meant_is_left_alone(
    script: str, way: str, words: str, tmp_path: Path
) -> None:
    assert not _told(tmp_path, script, way, words)
