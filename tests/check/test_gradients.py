"""Gradients that are clipped rank by rank, and those that calls of c10d do not send back."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

CLIPPED = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.distributed.fsdp import FullyShardedDataParallel
way = {way!r}
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 8))
if way.startswith("sharded"):
    model = FullyShardedDataParallel(
        net, device_id=torch.device("cpu"), use_orig_params="original" in way
    )
else:
    model = DistributedDataParallel(net) if "DDP" in way else net
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(3):
    loss = 10 * (1 + rank) * model(torch.randn(4, 64)).square().mean()
    loss.backward()
    if way == "by hand, after":
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
    if way == "sharded, all":
        model.clip_grad_norm_(0.1)
    else:
        most = 1e9 if way == "by hand, short" else 0.1
        nn.utils.clip_grad_norm_(model.parameters(), most)  # clips
    if way.startswith("by hand") and "after" not in way:
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)  # sums
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def _drifts(folder: Path, body: str) -> list[Finding]:
    return [one for one in findings_of(folder, body) if one.kind is FindingKind.DRIFT]


@pytest.mark.parametrize(
    ("way", "named", "words"),
    [
        ("by hand", {"clips", "sums"}, "to a norm of 0.1, and they are summed up only at"),
        *(
            pytest.param(way, {"clips"}, "the norm of its own shard", marks=pytest.mark.slow)
            for way in ("sharded", "sharded, original")
        ),
    ],
)
def test_norms_of_ones_own_are_told(way: str, named: set[str], words: str, tmp_path: Path) -> None:
    (found,) = _drifts(tmp_path, CLIPPED.format(way=way))
    assert (list(found.ranks), marked(found)) == ([0, 1], named)
    assert words in found.what


@pytest.mark.parametrize(
    "way",
    [
        "DDP",
        *(
            pytest.param(way, marks=pytest.mark.slow)
            for way in ("by hand, after", "by hand, short", "sharded, all")
        ),
    ],
)
def test_norms_of_all_are_right(way: str, tmp_path: Path) -> None:
    assert _drifts(tmp_path, CLIPPED.format(way=way)) == []


GATHERED = """
import contextlib
import torch.distributed.nn
from torch import nn
from torch.nn.parallel import DistributedDataParallel
way = {way!r}
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(16, 8))
targets = torch.arange(4) + 4 * rank
entropy = nn.functional.cross_entropy
if way == "compiled":
    entropy = torch.compile(lambda *given: nn.functional.cross_entropy(*given), backend="eager")

def of_all(part):
    if way == "with gradients":
        return torch.cat(torch.distributed.nn.functional.all_gather(part))
    parts = [torch.empty_like(part) for _ in range(2)]
    with torch.no_grad() if way == "constants" else contextlib.nullcontext():
        dist.all_gather(parts, part)  # gathers
    if way == "own put back":
        parts[rank] = part
    whole = torch.cat(parts)
    return whole.requires_grad_() if way == "sent back by hand" else whole

torch.manual_seed(1 + rank)
for step in range(3):
    made = model(torch.randn(4, 16))
    whole = of_all(made).view(-1, 8)
    if way == "for a metric":
        print((whole.argmax(1) == 1).float().mean())
        whole = made
        targets = torch.arange(4)
    loss = entropy(made @ whole.T, targets)  # computes
    loss.backward()
    model.zero_grad()
dist.destroy_process_group()
"""


def test_what_no_gradient_comes_back_from_is_told(tmp_path: Path) -> None:
    (found,) = _drifts(tmp_path, GATHERED.format(way="as it is"))
    assert (list(found.ranks), marked(found)) == ([0, 1], {"gathers", "computes"})
    assert "torch.distributed.nn.functional.all_gather" in found.mend


@pytest.mark.parametrize(
    "way",
    [
        "own put back",
        *(
            pytest.param(way, marks=pytest.mark.slow)
            for way in (
                "with gradients",
                "constants",
                "sent back by hand",
                "for a metric",
                "compiled",
            )
        ),
    ],
)
def test_what_is_meant_without_gradients_is_left_alone(way: str, tmp_path: Path) -> None:
    assert _drifts(tmp_path, GATHERED.format(way=way)) == []
