"""Shards of layers that began alike, by the activations that ranks sum up or gather."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

SHARDS = """
from torch import nn
from torch.distributed.nn.functional import all_gather
way = {way!r}

class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        whole = part.clone()
        dist.all_reduce(whole)  # sums
        return whole
    @staticmethod
    def backward(ctx, gradient):
        return gradient

torch.manual_seed(rank if way == "seeds apart" else 0)
up, down = nn.Linear(16, 32 // size), nn.Linear(32 // size, 16, bias=False)
torch.manual_seed(7)
head = nn.Linear(32, 16)
if way == "replicas":
    replica = nn.parallel.DistributedDataParallel(head)
    torch.manual_seed(100 + rank)
layers = [up, head] if way in ("gathered", "replicas") else [up, down]
optimizer = torch.optim.SGD([p for one in layers for p in one.parameters()], lr=0.1)
gain = torch.ones(16, requires_grad=True)
for step in range(5):
    rows = torch.randn(8, 16)
    if way == "behind a part":
        rows = Sum.apply(gain * rows.roll(rank))
    if way == "gathered":
        made = head(torch.cat(all_gather(up(rows)), dim=1))  # gathers
    elif way == "replicas":
        made = torch.cat(all_gather(replica(torch.cat([up(rows)] * size, dim=1))))
    else:
        made = Sum.apply(down(up(rows).relu()))
    optimizer.zero_grad()
    made.square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def _told(folder: Path, way: str) -> list[Finding]:
    found = findings_of(folder, SHARDS.format(way=way))
    return [one for one in found if "activations that are the same" in one.what]


@pytest.mark.parametrize(
    ("way", "line"),
    [
        ("summed", "sums"),
        pytest.param("behind a part", "sums", marks=pytest.mark.slow),
        pytest.param("gathered", "gathers", marks=pytest.mark.slow),
    ],
)
def test_shards_that_began_alike_are_told(way: str, line: str, tmp_path: Path) -> None:
    (found,) = _told(tmp_path, way)
    assert (found.kind, list(found.ranks)) == (FindingKind.DRIFT, [0, 1])
    assert f" {'gathers' if way == 'gathered' else 'sums up'} act" in found.what
    assert marked(found) == {line}


SHARDED = """
from torch import nn
from torch.distributed.fsdp import fully_shard
way = {way!r}
torch.manual_seed(0)
if way == "whole":
    model = fully_shard(nn.Linear(32, 64))
else:
    with torch.device("meta"):
        model = nn.Linear(32, 64)
    fully_shard(model).to_empty(device="cpu")
    torch.manual_seed(rank if way == "seeds apart" else 0)
    for one in model.parameters():
        one.detach().to_local().normal_()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(3):
    model(torch.randn(4, 32)).square().mean().backward()
    optimizer.step()  # steps
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def _begun(folder: Path, way: str) -> list[Finding]:
    found = findings_of(folder, SHARDED.format(way=way))
    return [one for one in found if "begin with the same shard" in one.what]


@pytest.mark.slow
def test_sharded_weights_that_ranks_drew_by_one_seed_are_a_remark(tmp_path: Path) -> None:
    (found,) = _begun(tmp_path, "one seed")
    assert (found.kind, found.remark, list(found.ranks)) == (FindingKind.DATA, True, [0, 1])
    assert "1 of 2 sharded parameters begin" in found.what  # the bias has but 32 elements a rank
    assert "the first of them 64 × 32" in found.what
    assert marked(found) == {"steps"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["seeds apart", "whole"])
def test_sharded_weights_that_differ_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _begun(tmp_path, way) == []


@pytest.mark.slow
@pytest.mark.parametrize("way", ["seeds apart", "replicas"])
def test_parts_that_differ_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _told(tmp_path, way) == []
