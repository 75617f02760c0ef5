"""Optimizers that wrap one of a part, and weights that a script shards and gathers itself."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import FindingKind

WRAPPED = """
from torch import nn
way = {way!r}
class Sharded(torch.optim.Optimizer):
    def __init__(self, parameters):
        self.parameters = list(parameters)
        super().__init__(self.parameters, {{}})
        self.own = torch.optim.AdamW(self.parameters[rank::size], lr=0.01)
    def step(self, closure=None):
        self.own.step()
        for at, parameter in enumerate(self.parameters):
            root = (at + (way == "another root")) % size
            if way != "biases kept" or parameter.ndim > 1:
                dist.broadcast(parameter.data, src=root)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
optimizer = Sharded(model.parameters())
torch.manual_seed(10 + rank)
for _ in range(6):
    optimizer.zero_grad()
    model(torch.randn(16, 32)).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= size
    optimizer.step()  # steps
dist.destroy_process_group()
"""

GATHERED = """
from torch import nn
way = {way!r}
class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        whole = torch.randn(width, 64) / 8
        part = 0 if way == "first parts" else rank
        self.shard = nn.Parameter(whole.chunk(size)[part].clone())
        self.whole = None
    def forward(self, x):
        if self.whole is None or way != "kept":
            parts = [torch.empty_like(self.shard) for _ in range(size)]
            dist.all_gather(parts, self.shard.detach())  # moves
            self.whole = torch.cat(parts)
        self.used = self.whole.detach().requires_grad_()
        return x @ self.used.T
    def reduce(self):
        self.shard.grad = torch.empty_like(self.shard)
        parts = [part.contiguous() for part in self.used.grad.chunk(size)]
        dist.reduce_scatter(self.shard.grad, parts)  # moves
torch.manual_seed(0)
model = nn.Sequential(Layer(64), nn.ReLU(), Layer(64), nn.ReLU(), Layer(8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(10 + rank)
for _ in range(8):
    optimizer.zero_grad()
    model(torch.randn(16, 64)).square().mean().backward()
    for layer in (model[0], model[2], model[4]):
        layer.reduce()
    optimizer.step()  # steps
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("another root", "is written over by what another rank has"),
        pytest.param("biases kept", "keeps what was there", marks=pytest.mark.slow),
        pytest.param("right", "", marks=pytest.mark.slow),
    ],
)
def test_what_an_optimizer_updates_that_another_wraps(way: str, words: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, WRAPPED.format(way=way))
    told = [one for one in found if one.kind is FindingKind.DRIFT]
    assert [words in one.what for one in told] == [True] * bool(words)
    assert all(marked(one) == {"steps"} for one in told)


@pytest.mark.parametrize(
    ("way", "times"), [("kept", 1), pytest.param("gathered", 0, marks=pytest.mark.slow)]
)
def test_weights_that_are_gathered_once_are_told_of(way: str, times: int, tmp_path: Path) -> None:
    found = findings_of(tmp_path, GATHERED.format(way=way))
    told = [one for one in found if "before the first alone" in one.what]
    assert [(one.kind, marked(one)) for one in told] == [(FindingKind.DRIFT, {"moves"})] * times


def test_shards_that_all_are_the_first_are_told_of(tmp_path: Path) -> None:
    found = findings_of(tmp_path, GATHERED.format(way="first parts"))
    (one,) = (each for each in found if "begin with the same shard on all their ranks" in each.what)
    assert (one.kind, one.remark, marked(one)) == (FindingKind.DRIFT, False, {"steps"})


AHEAD = """
from torch import nn
way = {way!r}
torch.manual_seed(rank)
layers = nn.Sequential(*(nn.Linear(32, 32 // size, bias=False) for _ in range(4)))
for name, shard in layers.named_parameters():
    shard.grad = torch.ones_like(shard)
weights = [layer.weight for layer in layers]
order = [0, 2, 1, 3] if way == "ahead on rank 0" and rank == 0 else range(4)
for step in range(3):
    for at in order:
        whole = torch.empty(32, 32)
        dist.all_gather_into_tensor(whole, weights[at].detach())  # gathers
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("way", "times"), [("ahead on rank 0", 1), ("in one order", 0)])
def test_shards_that_ranks_gather_in_another_order(way: str, times: int, tmp_path: Path) -> None:
    found = findings_of(tmp_path, AHEAD.format(way=way))
    told = [one for one in found if "of which the parts are of several layers" in one.what]
    assert [(one.kind, marked(one)) for one in told] == [(FindingKind.DRIFT, {"gathers"})] * times
    assert all("1.weight goes with that of 2.weight" in one.what for one in told)
