"""What ranks sum up: in types that hold the sums, and each sample once."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

SUMS = """
for _ in range(2):
    dist.all_reduce(torch.full((3,), 128, dtype=torch.uint8))  # wraps
    dist.all_reduce(torch.full((3,), 127, dtype=torch.uint8))
    dist.all_reduce(torch.full((3,), -100, dtype=torch.int8))  # wraps
    dist.all_reduce(torch.full((3,), 2**30, dtype=torch.int32))  # wraps
    dist.all_reduce(torch.full((3,), 2**30, dtype=torch.int64))
    dist.all_reduce(torch.full((200, 200), 90 + 90 * rank, dtype=torch.uint8))  # wraps
    dist.all_reduce(torch.full((3,), 255, dtype=torch.uint8), op=dist.ReduceOp.MAX)
    dist.all_reduce(torch.full((3,), 255.0, dtype=torch.bfloat16), op=dist.ReduceOp.MAX)
    dist.all_reduce(torch.full((3,), 255.0 - rank, dtype=torch.bfloat16))  # rounds
    dist.all_reduce(torch.full((3,), 256.0, dtype=torch.bfloat16))
    dist.all_reduce(torch.full((3,), torch.inf, dtype=torch.bfloat16))
    dist.all_reduce(torch.full((300,), 40_000.0 + rank, dtype=torch.float16))  # overflows
    dist.all_reduce(torch.full((300,), 20_000.5, dtype=torch.float16))
    dist.all_reduce(torch.full((300,), torch.inf, dtype=torch.float16))
dist.destroy_process_group()
"""


def test_a_sum_that_its_type_does_not_hold_is_told_once_for_each_line(tmp_path: Path) -> None:
    found = [one for one in findings_of(tmp_path, SUMS) if one.kind is FindingKind.RACE]
    assert [marked(one) for one in found] == [{"wraps"}] * 4 + [{"rounds"}, {"overflows"}]
    sums = ["256, and wraps", "-200, and wraps", "2,147,483,648, and wraps", "270, and wraps"]
    sums += ["509, which it can only round", "80,000, and becomes infinite"]
    for one, told in zip(found, sums, strict=True):
        assert told in one.what
        assert list(one.ranks) == [0, 1]


EVALUATED = """
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset
way = {way!r}
torch.manual_seed(0)
data = TensorDataset(torch.randn(4 * size + 1, 8))
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
sampler = DistributedSampler(data, shuffle=False, drop_last=way == "dropped")
if way == "each once":
    loader = DataLoader(Subset(data, range(rank, len(data), size)), batch_size=2)
else:
    loader = DataLoader(data, batch_size=2, sampler=sampler)
seen, made = 0, []
for (rows,) in loader:  # samples
    if way == "trained":
        model(rows).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    seen += len(rows)
    made.append(model(rows).detach())
if way == "cut":
    whole = [torch.empty(len(sampler), 2) for _ in range(size)]
    dist.all_gather(whole, torch.cat(made))
    seen = len(torch.stack(whole, dim=1).flatten(0, 1)[:len(data)]) / size
counts = torch.tensor([float(seen), 1.0])
if way == "gathered":
    dist.all_gather([torch.empty(2) for _ in range(size)], counts)  # sums
else:
    dist.all_reduce(counts)  # sums
dist.destroy_process_group()
"""


def _data(folder: Path, way: str) -> list[Finding]:
    found = findings_of(folder, EVALUATED.format(way=way))
    return [one for one in found if "counts twice" in one.what]


@pytest.mark.parametrize("way", ["padded", pytest.param("gathered", marks=pytest.mark.slow)])
def test_samples_that_an_evaluation_counts_twice_are_a_remark(way: str, tmp_path: Path) -> None:
    (found,) = _data(tmp_path, way)
    assert found.kind is FindingKind.DATA
    assert found.remark
    assert found.what.startswith("The ranks evaluate 10 samples of a dataset of 9:")
    assert marked(found) == {"samples", "sums"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["each once", "trained", "cut", "dropped"])
def test_samples_that_count_once_or_are_trained_on_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _data(tmp_path, way) == []
