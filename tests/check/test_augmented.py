"""Random numbers by which ranks change samples as they load them."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import FindingKind

TRAINING = """
import random
import numpy
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torch.utils.data.distributed import DistributedSampler
way, workers = {way!r}, {workers}
class Images(Dataset):
    def __init__(self):
        self.images = torch.randn(128, 32)
    def __len__(self):
        return len(self.images)
    def __getitem__(self, at):
        image = self.images[at]
        return image if way == "as they are" else image.roll(random.randrange(32))
class Stream(IterableDataset):
    def __iter__(self):
        yield from data.images[torch.randperm(128)][rank::size]
torch.manual_seed(0)
random.seed(rank if way == "seeded apart" else 0)
data = Images()
model = DistributedDataParallel(nn.Linear(32, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
if way == "seeded apart":
    torch.manual_seed(rank)
sampler = None if way == "a stream" else DistributedSampler(data)
loader = DataLoader(
    Stream() if way == "a stream" else data, batch_size=8, sampler=sampler, num_workers=workers
)
for rows in loader:  # loads
    optimizer.zero_grad()
    model(rows).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def _told(folder: Path, way: str, workers: int) -> list[set[str]]:
    script = TRAINING.format(way=way, workers=workers)
    found = [one for one in findings_of(folder, script) if "change other samples" in one.what]
    assert all(one.kind is FindingKind.DATA and one.remark for one in found)
    return [marked(one) for one in found]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_ranks_that_augment_by_one_seed_are_told_of(workers: int, tmp_path: Path) -> None:
    assert _told(tmp_path, "one seed", workers) == [{"loads"}]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("way", ["seeded apart", "as they are", "a stream"])
def test_seeds_of_each_rank_and_orders_of_a_stream_are_right(
    way: str, workers: int, tmp_path: Path
) -> None:
    assert _told(tmp_path, way, workers) == []
