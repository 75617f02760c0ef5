"""Layers that ranks share by hand: what is wrong with the gradients of what each has whole."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

BEGIN = """
from torch import nn
way = {way!r}

class Share(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return whole.view_as(whole)
    @staticmethod
    def backward(ctx, gradient):
        dist.all_reduce(summed := gradient.clone())
        return summed
"""

SHARED = (
    BEGIN
    + """
class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        dist.all_reduce(whole := part.clone())  # sums
        return whole
    @staticmethod
    def backward(ctx, gradient):
        if way == "twice":
            dist.all_reduce(gradient := gradient.clone())  # sums once more
        return gradient

def sum_up(part):
    if "by a call" in way:
        dist.all_reduce(part)  # sums
        return part
    return Sum.apply(part)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.up, self.down = (nn.Parameter(torch.randn(64, 32)[rank::size] / 8) for _ in range(2))
    def forward(self, whole):
        given = self.norm(whole)
        wide = (given if "back" in way else Share.apply(given)) @ self.up.T
        part = wide.relu() @ self.down
        summed = part if way == "forth" else sum_up(part)
        if way == "dropout within":
            summed = summed * (torch.rand(summed.shape, generator=own) > 0.2)
        return whole + summed

torch.manual_seed(0)
first, blocks, last = nn.Embedding(50, 32), nn.Sequential(Block(), Block()), nn.Linear(32, 50)
model = nn.Sequential(first, blocks, last)
for name, parameter in model.named_parameters():
    parameter.requires_grad_("frozen" not in way or name.endswith(("up", "down")))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
own = torch.Generator().manual_seed(rank)
for step in range(5):
    torch.manual_seed(100 * rank * (way == "other batches") + step)
    tokens, targets = torch.randint(0, 50, (4, 8)), torch.randint(0, 50, (4, 8))
    entering = first(tokens)
    if way == "dropout":
        entering = entering * (torch.rand(entering.shape, generator=own) > 0.2)
    leaving = blocks(entering)
    if way == "late dropout":
        leaving = leaving * (torch.rand(leaving.shape, generator=own) > 0.2)
    loss = nn.functional.cross_entropy(last(leaving).flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    if way == "clipped":
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    optimizer.step()  # steps
dist.destroy_process_group()
"""
)

OTHER_DATA = "compute on other data than one another before the first of them"


def _drift(folder: Path, text: str) -> list[Finding]:
    return [one for one in findings_of(folder, text) if one.kind is FindingKind.DRIFT]


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("back", "though all ranks have the same loss: each shared layer sends back"),
        pytest.param("forth", "each goes on with what its own part", marks=pytest.mark.slow),
        pytest.param("clipped", "by the norm of its own parts", marks=pytest.mark.slow),
        pytest.param("other batches", OTHER_DATA, marks=pytest.mark.slow),
        pytest.param("dropout", OTHER_DATA, marks=pytest.mark.slow),
        pytest.param("late dropout", "outside of these differs", marks=pytest.mark.slow),
        pytest.param("dropout within", "between those layers they compute", marks=pytest.mark.slow),
    ],
)
def test_what_goes_wrong_around_shared_layers_is_told(way: str, words: str, tmp_path: Path) -> None:
    (found,) = _drift(tmp_path, SHARED.format(way=way))
    assert words in found.what
    assert found.ranks == [0, 1]
    assert marked(found) == {"steps"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["frozen, back", "frozen, back, by a call"])
def test_shards_behind_which_nobody_sums_up_gradients_are_told(way: str, tmp_path: Path) -> None:
    (found,) = _drift(tmp_path, SHARED.format(way=way))
    assert "is summed up once more, and no call sums up gradients in the backward" in found.what
    assert (found.ranks, marked(found)) == ([0, 1], {"sums"})


@pytest.mark.slow
def test_a_gradient_that_is_summed_once_more_is_told(tmp_path: Path) -> None:
    (found,) = _drift(tmp_path, SHARED.format(way="twice"))
    assert "gets 2 times its gradient" in found.what
    assert (found.remark, marked(found)) == (True, {"sums once more"})


@pytest.mark.slow
@pytest.mark.parametrize("way", ["", "frozen", "frozen, by a call"])
def test_layers_that_are_shared_rightly_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _drift(tmp_path, SHARED.format(way=way)) == []


COLUMNS = (
    BEGIN
    + """
def sum_up(part):
    dist.all_reduce(part)
    return part

torch.manual_seed(0)
first = nn.Embedding(48, 32)
up, down = (nn.Parameter(torch.randn(64, 32)[rank::size] / 8) for _ in range(2))
head = nn.Parameter(torch.randn(48, 32).chunk(size)[rank].clone() / 8)
optimizer = torch.optim.SGD([*first.parameters(), up, down, head], lr=0.1)
for step in range(5):
    torch.manual_seed(step)
    tokens = torch.randint(0, 48, (4, 8))
    targets = torch.randint(0, 48 if way == "of all" else 48 // size, (32,))
    entering = first(tokens)
    leaving = entering + sum_up((Share.apply(entering) @ up.T).relu() @ down)
    logits = (Share.apply(leaving) @ head.T).flatten(0, 1)
    optimizer.zero_grad()
    if way == "of all":
        own = targets - rank * len(head)
        is_own = (own >= 0) & (own < len(head))
        of_target = logits.gather(1, own.clamp(0, len(head) - 1)[:, None])[:, 0]
        of_target = sum_up(torch.where(is_own, of_target, 0))
        loss = (sum_up(logits.exp().sum(1)).log() - of_target).mean()
    else:
        loss = nn.functional.cross_entropy(logits, targets)
    loss.backward()  # begins
    optimizer.step()
dist.destroy_process_group()
"""
)


@pytest.mark.slow
def test_a_loss_of_the_rank_s_part_of_the_outputs_is_told(tmp_path: Path) -> None:
    (found,) = _drift(tmp_path, COLUMNS.format(way="of a part"))
    assert "share layers and are given the same batches, and yet each has a loss" in found.what
    assert (found.ranks, marked(found)) == ([0, 1], {"begins"})


@pytest.mark.slow
def test_a_loss_of_all_outputs_is_left_alone(tmp_path: Path) -> None:
    assert _drift(tmp_path, COLUMNS.format(way="of all")) == []


SEQUENCES = """
from torch import nn
way = {way!r}

def swap(given, split, join):
    parts = torch.stack([one.contiguous() for one in given.chunk(size, split)])
    dist.all_to_all_single(got := torch.empty_like(parts), parts)
    return torch.cat(list(got), join)

class Swap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, given, split, join):
        ctx.back = join, split
        return swap(given, split, join)
    @staticmethod
    def backward(ctx, gradient):
        return swap(gradient, *ctx.back), None, None

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)
    def forward(self, own):
        heads = self.qkv(self.norm(own)).unflatten(-1, (3, 4, 8))
        q, k, v = Swap.apply(heads, 3, 1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return own + self.out(Swap.apply(mixed.transpose(1, 2), 1, 2).flatten(2))

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(50, 32), Attention(), Attention(), nn.Linear(32, 50))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(5):
    torch.manual_seed(step)
    tokens, targets = (torch.randint(0, 50, (4, 16)).chunk(size, 1)[rank] for _ in range(2))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()).backward()
    if way == "reduced":
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
            parameter.grad /= size
    optimizer.step()  # steps
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_parts_of_sequences_whose_gradients_nobody_reduces_are_told(tmp_path: Path) -> None:
    (found,) = _drift(tmp_path, SEQUENCES.format(way=""))
    assert (
        "Ranks 0 and 1 begin with the same model, exchange parts of their sequences" in found.what
    )
    assert marked(found) == {"steps"}


@pytest.mark.slow
def test_parts_of_sequences_whose_gradients_are_reduced_are_left_alone(tmp_path: Path) -> None:
    assert _drift(tmp_path, SEQUENCES.format(way="reduced")) == []


EXPERTS = """
from torch import nn
way = {way!r}

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, given):
        dist.all_to_all_single(got := torch.empty_like(given), given.contiguous())
        return got
    @staticmethod
    def backward(ctx, gradient):
        return Exchange.forward(ctx, gradient)

torch.manual_seed(0)
first, router, last = nn.Linear(16, 32), nn.Linear(32, size), nn.Linear(32, 4)
torch.manual_seed(0 if way == "from one" else 1 + rank)
expert = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
modules = nn.ModuleList([first, router, last, expert])
reduced = [first, last] if way == "left out" else [first, router, last]
optimizer = torch.optim.AdamW(modules.parameters(), lr=1e-3)
torch.manual_seed(1 + rank)
for step in range(5):
    rows, labels = torch.randn(8, 16), torch.randint(0, 4, (8,))
    hidden = first(rows)
    parts = router(hidden).softmax(1)
    sent = torch.stack([hidden * parts[:, one : one + 1] for one in range(size)])
    back = Exchange.apply(expert(Exchange.apply(sent)))
    optimizer.zero_grad()
    (nn.functional.cross_entropy(last(hidden + back.sum(0)), labels) / size).backward()
    for module in reduced:
        for parameter in module.parameters():
            dist.all_reduce(parameter.grad)
    optimizer.step()  # steps
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_a_router_that_is_left_out_beside_experts_is_told(tmp_path: Path) -> None:
    (found,) = _drift(tmp_path, EXPERTS.format(way="left out"))
    assert "Parameters 2 and 3 of the optimizer are trained but not reduced" in found.what
    assert "as of a router" in found.mend
    assert marked(found) == {"steps"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["", "from one"])
def test_experts_of_each_ranks_own_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _drift(tmp_path, EXPERTS.format(way=way)) == []
