"""Ranks that hand on parts of their sequences round a ring, within the layers of one model."""

from pathlib import Path

import pytest
import torch

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind
from steptime.check.observe.tensors import is_followed

RINGS = """
from torch import nn
way = {way!r}
rings = [dist.new_group([at, at + 1]) for at in range(0, size, 2)]
data = [dist.new_group(list(range(at, size, 2))) for at in range(2)][rank % 2]
ring, place, other = rings[rank // 2], rank % 2, rank ^ 1

class Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx, own):
        parts = [torch.empty_like(own), torch.empty_like(own)]
        parts[place] = own.contiguous()
        sent = dist.P2POp(dist.isend, parts[place], other, ring)
        taken = dist.P2POp(dist.irecv, parts[1 - place], other, ring)
        for work in dist.batch_isend_irecv([sent, taken]):
            work.wait()
        return torch.cat(parts, 1)
    @staticmethod
    def backward(ctx, gradient):
        dist.all_reduce(whole := gradient.contiguous(), group=ring)
        return whole.chunk(2, 1)[place].contiguous()

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)
    def forward(self, own):
        q, k, v = self.qkv(self.norm(own)).chunk(3, -1)
        mixed = nn.functional.scaled_dot_product_attention(q, Ring.apply(k), Ring.apply(v))
        return own + self.out(mixed)

class Shared(nn.Sequential):
    def forward(self, whole):
        return super().forward(whole.chunk(2, 1)[place])

torch.manual_seed(0 if way == "data" else rank // 2)
model = Shared(nn.Embedding(50, 32), Attention(), Attention(), nn.Linear(32, 50))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
trained = nn.parallel.DistributedDataParallel(model) if way == "replicas" else model
for step in range(5):
    torch.manual_seed(10 * step + rank // 2)
    tokens, targets = (torch.randint(0, 50, (4, 16)) for _ in range(2))
    if way == "same part":
        tokens = tokens[:, :8].repeat(1, 2)
    made = trained(tokens)
    optimizer.zero_grad()
    own = targets.chunk(2, 1)[place]
    nn.functional.cross_entropy(made.flatten(0, 1), own.flatten()).backward()
    for parameter in model.parameters() if way in ("data", "same part") else ():
        dist.all_reduce(parameter.grad, group=data if way == "data" else ring)
    optimizer.step()  # steps
dist.destroy_process_group()
"""


def _told(folder: Path, way: str, ranks: int) -> list[Finding]:
    found = findings_of(folder, RINGS.format(way=way), ranks)
    return [one for one in found if one.kind in (FindingKind.DRIFT, FindingKind.DATA)]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["nobody", "data"])
def test_gradients_that_no_ring_reduces_are_told_once(way: str, tmp_path: Path) -> None:
    (found,) = _told(tmp_path, way, 4)
    assert found.what.startswith(
        "Ranks 0 and 1 and ranks 2 and 3 begin with the same model, each group with one, exchange"
    )
    assert (sorted(found.ranks), marked(found)) == ([0, 1, 2, 3], {"steps"})


@pytest.mark.slow
def test_ranks_of_a_ring_that_all_have_one_part_are_told(tmp_path: Path) -> None:
    (found,) = _told(tmp_path, "same part", 2)
    assert "ranks 0 and 1 at first: these ranks compute on the same part of each" in found.what


@pytest.mark.slow
def test_replicas_round_a_ring_may_be_given_the_same_sequences(tmp_path: Path) -> None:
    assert _told(tmp_path, "replicas", 2) == []


def test_views_of_which_autograd_tells_nothing_are_not_followed() -> None:
    base = 2 * torch.nn.Parameter(torch.ones(4))
    with torch.no_grad():
        view = base[:2]
    base.mul_(2)
    with pytest.raises(RuntimeError, match="no_grad mode"):
        view.is_leaf  # noqa: B018
    assert is_followed(base)
    assert not is_followed(view)
