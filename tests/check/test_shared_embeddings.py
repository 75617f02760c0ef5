"""Embeddings of which each rank has some rows, and what the ranks add up of them."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import FindingKind

EMBEDDING = """
from torch import nn
way = {way!r}
part = 48 // size

class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, given):
        dist.all_reduce(whole := given.clone())  # sums
        return whole
    @staticmethod
    def backward(ctx, gradient):
        return gradient

class Shared(nn.Embedding):
    def forward(self, tokens):
        others = (tokens < rank * part) | (tokens >= (rank + 1) * part)
        found = super().forward((tokens - rank * part).clamp(0, part - 1))
        if way == "by columns":
            found = nn.functional.pad(found, (8 * rank, 8 * (size - 1 - rank)))
        elif way != "unmasked":
            found = found.masked_fill(others[..., None], 0)
        return Sum.apply(found)

torch.manual_seed(rank)
first = Shared(part, 8 if way == "by columns" else 16)
torch.manual_seed(0)
last = nn.Linear(16, 48)
optimizer = torch.optim.AdamW([*first.parameters(), *last.parameters()], lr=1e-3)
for step in range(4):
    tokens, targets = torch.randint(0, 48, (4, 8)), torch.randint(0, 48, (4, 8))
    optimizer.zero_grad()
    nn.functional.cross_entropy(last(first(tokens)).flatten(0, 1), targets.flatten()).backward()
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_rows_that_are_added_for_tokens_of_others_are_told(tmp_path: Path) -> None:
    told = findings_of(tmp_path, EMBEDDING.format(way="unmasked"))
    (found,) = (one for one in told if "embedding" in one.what)
    assert "they bring 2.0 times as many elements as there are" in found.what
    assert found.kind is FindingKind.DRIFT
    assert (found.ranks, marked(found)) == ([0, 1], {"sums"})


@pytest.mark.slow
@pytest.mark.parametrize("way", ["masked", "by columns"])
def test_rows_that_only_their_rank_brings_are_left_alone(way: str, tmp_path: Path) -> None:
    told = findings_of(tmp_path, EMBEDDING.format(way=way))
    assert [one for one in told if one.kind is not FindingKind.SLOW] == []
