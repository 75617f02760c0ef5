"""Samples that several ranks are given, and what each drops of its own."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import FindingKind

TRAINING = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
way = {way!r}
torch.manual_seed(0)
data, labels = torch.randn(130, 32), torch.randint(0, 8, (130,))
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.Dropout(0.1), nn.Linear(64, 8)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(0 if way == "one seed" else rank)
def parts():
    for epoch in range(3):
        order = torch.randperm(130, generator=torch.Generator().manual_seed(epoch))
        if way == "own orders":
            order = torch.randperm(130)
        elif way == "drawn":
            order = torch.randint(0, 130, (130,))
        elif way == "padded":
            order = torch.cat([order, order[:2]])
        yield from order[rank::size].split(8)
for part in parts():
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(data[part]), labels[part]).backward()  # runs
    optimizer.step()
dist.destroy_process_group()
"""


def _told(folder: Path, way: str, words: str) -> list[set[str]]:
    found = [one for one in findings_of(folder, TRAINING.format(way=way)) if words in one.what]
    assert all(one.kind is FindingKind.DATA and one.remark for one in found)
    return [marked(one) for one in found]


def test_parts_of_orders_of_each_rank_overlap(tmp_path: Path) -> None:
    assert _told(tmp_path, "own orders", "their parts of the data overlap") == [{"runs"}]


def test_ranks_that_drop_by_one_seed_are_told_of(tmp_path: Path) -> None:
    assert _told(tmp_path, "one seed", "drop the same elements") == [{"runs"}]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["second passes", "padded", "drawn"])
def test_second_passes_and_seeds_of_each_rank_are_right(way: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, TRAINING.format(way=way))
    wrong = ("their parts of the data overlap", "drop the same elements")
    assert not [one.what for one in found if any(words in one.what for words in wrong)]
