"""What datasets consist of, and ranks whose datasets are not the same."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from observed_scripts import findings_of, marked
from steptime.check.finding import FindingKind
from steptime.check.observe.datasets import Contents, contents_of


class Files(Dataset[str]):
    def __init__(self, files: list[str]) -> None:
        self.files = files
        self.root = "/data"
        self._cache = [object() for _ in files]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> str:
        raise AssertionError("no sample is read")


def _of(dataset: object) -> Contents:
    contents = contents_of(dataset)
    assert contents is not None
    return contents


def test_the_same_samples_in_another_order_are_a_bag_alike() -> None:
    names = [f"{number}.png" for number in range(100)]
    one, other = _of(Files(names)), _of(Files(names[::-1]))
    assert one.ordered != other.ordered
    assert one.bag == other.bag
    assert one.sketch == other.sketch
    assert not one.drawn
    assert _of(Files(names)).ordered == one.ordered


def test_parts_are_told_by_what_they_are_of() -> None:
    rows = TensorDataset(torch.arange(200).view(100, 2), torch.zeros(100, dtype=torch.int64))
    halves = [_of(Subset(rows, range(first, 100, 2))) for first in (0, 1)]
    assert not set(halves[0].sketch) & set(halves[1].sketch)
    parts = ConcatDataset([Subset(rows, range(50)), Subset(rows, range(50, 100))])
    assert _of(parts).ordered == _of(rows).ordered
    moved = TensorDataset(torch.arange(200).view(100, 2), torch.ones(100, dtype=torch.int64))
    assert _of(moved).bag != _of(rows).bag


def test_what_is_drawn_is_told_and_what_says_nothing_is_left_alone() -> None:
    assert _of(TensorDataset(torch.randn(10, 3))).drawn
    assert _of([("a", 0.5), ("b", 0.25)]).drawn is False
    assert contents_of(Files([])) is None
    assert contents_of([object()]) is None
    assert contents_of(iter(range(3))) is None
    assert contents_of(np.zeros(200_000).tolist()) is None


DATA = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset, TensorDataset
from torch.utils.data import random_split
way = {way!r}
torch.manual_seed(0)

class Files(Dataset):
    def __init__(self, files):
        self.files = files
    def __len__(self):
        return len(self.files)
    def __getitem__(self, index):
        return torch.full((16,), float(self.files[index]) / 256)

names = [str(number) for number in range(256)]
data = Files(names[rank:] + names[:rank] if way == "another order" else names)
if way == "split":
    torch.manual_seed(10 + rank)
    data, _ = random_split(data, [192, 64])
if way == "parts":
    data = Files(names[rank::size])
if way == "drawn":
    torch.manual_seed(20 + rank)
if way in ("drawn", "parts of one"):
    data = TensorDataset(torch.randn(256, 16))
if way == "parts of one":
    data = Subset(data, range(rank, 256, size))
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in DataLoader(data, batch_size=16, sampler=DistributedSampler(data)):  # loop
    rows = batch if torch.is_tensor(batch) else batch[0]
    model(rows).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("split", "is not the same on all ranks, as where each splits it by a seed of its own"),
        pytest.param("another order", "has its samples in another order", marks=pytest.mark.slow),
        *(
            pytest.param(way, "holds other samples on each rank, and", marks=pytest.mark.slow)
            for way in ("parts", "parts of one")
        ),
    ],
)
def test_datasets_that_are_not_the_same_are_told(way: str, words: str, tmp_path: Path) -> None:
    told = findings_of(tmp_path, DATA.format(way=way))
    (found,) = (one for one in told if one.kind is not FindingKind.SLOW)
    assert found.kind is FindingKind.DATA
    assert found.remark
    assert words in found.what
    assert marked(found) == {"loop"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["", "drawn"])
def test_datasets_that_are_or_that_are_drawn_are_left_alone(way: str, tmp_path: Path) -> None:
    told = findings_of(tmp_path, DATA.format(way=way))
    assert [one for one in told if one.kind is not FindingKind.SLOW] == []
