"""Losses that ranks average, or make of one another's features, before their backward."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

AVERAGED = """
from torch import nn
from torch.distributed.nn.functional import all_reduce
way = {way!r}
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", enabled=way == "scaled")
torch.manual_seed(1 + rank)
for step in range(5):
    count = 4 + 4 * rank
    rows, labels = torch.randn(count, 16), torch.randint(0, 4, (count,))
    loss = nn.functional.cross_entropy(model(rows), labels)
    if way in ("averaged", "scaled"):
        dist.all_reduce(loss)  # averages
        loss = loss / size
    if way == "summed":
        dist.all_reduce(loss)
    if way == "by tokens":
        dist.all_reduce(tokens := torch.tensor(float(count)))
        loss = loss * count * size / tokens
    if way == "with a gradient":
        loss = all_reduce(loss) / size
    optimizer.zero_grad()
    scaler.scale(loss).backward()  # begins
    scaler.step(optimizer)
    scaler.update()
dist.destroy_process_group()
"""


def _drift(folder: Path, text: str) -> list[Finding]:
    return [one for one in findings_of(folder, text) if one.kind is FindingKind.DRIFT]


@pytest.mark.parametrize("way", ["averaged", pytest.param("scaled", marks=pytest.mark.slow)])
def test_a_loss_averaged_before_its_backward_is_told(way: str, tmp_path: Path) -> None:
    (found,) = _drift(tmp_path, AVERAGED.format(way=way))
    assert "what is trained by is 1/2 of their mean" in found.what
    assert found.ranks == [0, 1]
    assert marked(found) == {"averages", "begins"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["summed", "by tokens", "with a gradient"])
def test_a_loss_that_has_its_whole_gradient_is_left_alone(way: str, tmp_path: Path) -> None:
    assert _drift(tmp_path, AVERAGED.format(way=way)) == []


CONTRASTED = """
from torch import nn
way = {way!r}

class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, own):
        parts = [torch.empty_like(own) for _ in range(size)]
        dist.all_gather(parts, own.contiguous())  # gathers
        return torch.cat(parts)
    @staticmethod
    def backward(ctx, gradient):
        if way == "summed":
            dist.all_reduce(gradient := gradient.contiguous())
        return gradient.chunk(size)[rank].clone()

torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(16, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(6):
    rows = torch.randn(8, 16)
    one, other = nn.functional.normalize(model(torch.cat([rows, rows + 0.1])), dim=1).chunk(2)
    if way == "one loss":
        alike, targets = Gather.apply(one) @ Gather.apply(other).T, torch.arange(8 * size)
    else:
        alike, targets = one @ Gather.apply(other).T, torch.arange(8) + 8 * rank
    optimizer.zero_grad()
    nn.functional.cross_entropy(10 * alike, targets).backward()
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_features_gathered_one_way_for_a_loss_of_each_rank_are_told(tmp_path: Path) -> None:
    (found,) = _drift(tmp_path, CONTRASTED.format(way="sliced"))
    assert "Gather makes an all_gather in its forward and no call in its backward" in found.what
    assert marked(found) == {"gathers"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["one loss", "summed"])
def test_features_that_get_all_of_their_gradients_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _drift(tmp_path, CONTRASTED.format(way=way)) == []


SHARED = """
from torch import nn
way = {way!r}

class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        whole = part.clone()
        dist.all_reduce(whole)
        return whole
    @staticmethod
    def backward(ctx, gradient):
        return gradient

class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, own):
        parts = [torch.empty_like(own) for _ in range(size)]
        dist.all_gather(parts, own.contiguous())  # gathers
        return torch.cat(parts, -1)
    @staticmethod
    def backward(ctx, gradient):
        return gradient.chunk(size, -1)[rank].clone()

class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 16 // size), nn.Linear(16 // size, 16)
        self.head = nn.Linear(16, 8 // size)
    def forward(self, rows):
        return Gather.apply(self.head(Sum.apply(self.down(self.up(rows).relu()))))

torch.manual_seed(rank)
model = Shared()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(7 + (rank if way == "other data" else 0))
for step in range(6):
    rows, targets = torch.randn(8, 16), torch.randint(8, (8,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(rows), targets).backward()
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_ranks_that_share_layers_and_are_given_other_batches_are_told_so(tmp_path: Path) -> None:
    (found,) = _drift(tmp_path, SHARED.format(way="other data"))
    assert "share layers, sum up what their parts give, and are given other batches" in found.what
    assert marked(found) == {"gathers"}


@pytest.mark.slow
def test_ranks_that_share_layers_and_batches_need_gather_no_gradients(tmp_path: Path) -> None:
    assert _drift(tmp_path, SHARED.format(way="")) == []
