"""Ranks that exchange as much as their model and never have the same one again."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

TRAINING = """
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
way = {way!r}
torch.manual_seed(0)
data = TensorDataset(torch.randn(128 * size, 32), torch.randint(0, 8, (128 * size,)))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=16, sampler=sampler)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
def exchanged():
    for parameter in model.parameters():
        mean = parameter.grad / size
        if way in ("summed", "summed rightly"):
            dist.all_reduce(mean)
        else:
            parts = [torch.empty_like(mean) for _ in range(size)]
            dist.all_gather(parts, mean)
            mean = sum(parts)
        if way.endswith("rightly"):
            parameter.grad = mean
def tops():  # each rank's own, or those of rank 0
    for parameter in model.parameters():
        flat = parameter.grad.flatten()
        places = flat.abs().topk(max(1, flat.numel() // 10)).indices
        if way == "tops rightly":
            dist.broadcast(places, src=0)
        top = flat[places] / size
        dist.all_reduce(top)
        parameter.grad = torch.zeros_like(flat).index_copy(0, places, top).view_as(parameter)
def averaged():
    states = [None] * size
    dist.all_gather_object(states, model.state_dict())
    mean = {{name: sum(one[name] for one in states) / size for name in states[0]}}
    if way == "biases":
        mean = {{name: one for name, one in mean.items() if one.ndim > 1}}
    if way in ("biases", "averaged rightly") or (way == "on rank 0" and rank == 0):
        model.load_state_dict(mean, strict=False)
def passed_on():
    other = (rank + (1 if rank % 2 == step % 2 else -1)) % size
    pair = dist.new_group([min(rank, other), max(rank, other)], use_local_synchronization=True)
    for parameter in model.parameters():
        dist.all_reduce(parameter.data, group=pair)
        parameter.data /= 2
for epoch in range(5):
    sampler.set_epoch(epoch)
    for step, (rows, labels) in enumerate(loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(rows), labels).backward()
        if way.split()[0] in ("summed", "gathered"):
            exchanged()
        elif way.split()[0] == "tops":
            tops()
        optimizer.step()  # steps
        if way == "gossip":
            passed_on()
    if way in ("on rank 0", "never loaded", "biases", "averaged rightly"):
        averaged()
dist.barrier()
dist.destroy_process_group()
"""


def _told(folder: Path, way: str, ranks: int = 2) -> list[Finding]:
    told = findings_of(folder, TRAINING.format(way=way), ranks=ranks)
    return [one for one in told if one.kind is not FindingKind.SLOW]


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("summed", "no two of them have the same after any of 8 exchanges"),
        *(
            pytest.param(way, words, marks=pytest.mark.slow)
            for way, words in {
                "gathered": "no two of them have the same after any of 8 exchanges",
                "on rank 0": "no two of them have the same after any of 4 exchanges",
                "never loaded": "no two of them have the same after any of 4 exchanges",
                "biases": "Parameters 1 and 3 of the optimizer are the same on no two ranks",
                "tops": "exchanges of as many tensors as",
            }.items()
        ),
    ],
)
def test_what_is_exchanged_for_nothing_is_told(way: str, words: str, tmp_path: Path) -> None:
    (found,) = _told(tmp_path, way)
    assert found.kind is FindingKind.DRIFT
    assert words in found.what
    assert marked(found) == {"steps"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "ranks"),
    [
        ("summed rightly", 2),
        ("gathered rightly", 3),
        ("averaged rightly", 3),
        ("gossip", 4),
        ("tops rightly", 2),
    ],
)
def test_who_meets_again_is_left_alone(way: str, ranks: int, tmp_path: Path) -> None:
    assert _told(tmp_path, way, ranks) == []
