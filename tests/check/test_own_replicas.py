"""Models whose gradients the script itself averages: their batches, targets and settings."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

AVERAGED = """
from torch import nn
way = {way!r}
class Named(nn.Sequential):
    def forward(self, *, given):
        return super().forward(given)  # passes
torch.manual_seed(0)
dropout = 0.3 if way == "settings" and rank else 0.1
model = Named(nn.Linear(16, 16), nn.Dropout(dropout), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if way != "by keyword":
    model = nn.Sequential(*model)
same = way in ("batches", "by keyword", "a part")
own = torch.Generator().manual_seed(0 if same else rank)
for step in range(6):
    count = 6 + 14 * rank if way == "targets" else 8
    rows = torch.randn(count, 16, generator=own)
    labels = torch.randint(4, (count,), generator=own)
    loss = nn.functional.cross_entropy(
        model(given=rows) if way == "by keyword" else model(rows),  # runs
        labels)
    optimizer.zero_grad()
    loss.backward()  # begins
    for parameter in model[0].parameters() if way == "a part" else model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= size
    optimizer.step()
dist.destroy_process_group()
"""

WORDS = {
    "batches": ("are given the same batches", "runs"),
    "by keyword": ("are given the same batches", "passes"),
    "targets": ("own targets, as 6 on rank 0 and 20 on rank 1", "begins"),
    "settings": ("Dropout 1 has p=0.1 on rank 0 and p=0.3 on rank 1", "runs"),
}


def _told(folder: Path, way: str) -> list[Finding]:
    found = findings_of(folder, AVERAGED.format(way=way))
    return [one for one in found if any(words in one.what for words, _ in WORDS.values())]


@pytest.mark.parametrize(
    "way", ["batches", *(pytest.param(one, marks=pytest.mark.slow) for one in list(WORDS)[1:])]
)
def test_replicas_that_a_script_averages_are_looked_at(way: str, tmp_path: Path) -> None:
    (found,) = _told(tmp_path, way)
    words, line = WORDS[way]
    assert words in found.what
    assert marked(found) == {line}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["", "a part"])
def test_what_may_be_right_is_left_alone(way: str, tmp_path: Path) -> None:
    assert _told(tmp_path, way) == []


PARTED = """
from torch import nn
way = {way!r}
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(16, 16) for _ in range({layers})))
parameters = list(model.parameters())
bounds = [round(part * len(parameters) / size) for part in range(size + 1)]
optimizer = torch.optim.AdamW(parameters[bounds[rank] : bounds[rank + 1]], lr=0.01)
own = torch.Generator().manual_seed(rank)
for step in range(6):
    rows = torch.randn(8, 16, generator=own)
    (model(rows) - rows).square().mean().backward()
    for parameter in parameters if way != "unreduced" else ():
        dist.all_reduce(parameter.grad)
        parameter.grad /= size
        if way == "elsewhere" and rank:
            parameter.grad.zero_()
    optimizer.step()  # steps
    for number, parameter in enumerate(parameters):
        owner = next(one for one in range(size) if number < bounds[one + 1])
        if way != "kept":
            dist.broadcast(parameter.data, 0 if way == "undone" else owner)
        parameter.grad = None
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("layers", [4, 5, 8])
def test_optimizers_of_a_part_each_are_no_replicas(layers: int, tmp_path: Path) -> None:
    body = PARTED.format(layers=layers, way="")
    found = findings_of(tmp_path, body, ranks=2 if layers == 4 else 3)
    assert [one for one in found if one.kind is not FindingKind.SLOW] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "words"),
    [
        (
            "kept",
            "Each of 0.weight, 0.bias, 1.weight and 1 more of Sequential is updated on rank 0",
        ),
        ("undone", "Each of 2.weight, 2.bias, 3.weight and 1 more of Sequential is what it was"),
        ("elsewhere", "Rank 1 steps by gradients that are all zero, and others do not"),
        ("unreduced", "has a part of the model and steps by gradients of the rank's own batches"),
    ],
)
def test_parts_that_do_not_reach_the_other_ranks_are_told(
    way: str, words: str, tmp_path: Path
) -> None:
    told = findings_of(tmp_path, PARTED.format(layers=4, way=way))
    (found,) = (one for one in told if one.kind is not FindingKind.SLOW)
    assert words in found.what
    assert (sorted(found.ranks), marked(found)) == ([0, 1], {"steps"})


ADVERSARIES = """
from torch import nn
way = {way!r}
torch.manual_seed(0)
generator = nn.Linear(4, 16)
critic = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1), nn.Softplus())
optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (generator, critic)]
samples = torch.Generator().manual_seed(0 if way == "samples" else rank)
noises = torch.Generator().manual_seed(5 if way == "noise" else 5 + rank)
def average(model, optimizer):
    reduced = [one for one in model.parameters() if way != "in one" or one.ndim > 1]
    if way == "in one":
        flat = torch.cat([one.grad.flatten() for one in reduced])
        dist.all_reduce(flat)
        flat /= size
        for one, part in zip(reduced, flat.split([one.numel() for one in reduced])):
            one.grad = part.view_as(one)
    for one in reduced if way != "in one" and (way != "generator" or model is generator) else ():
        dist.all_reduce(one.grad)
        one.grad /= size
    optimizer.step()  # steps
    optimizer.zero_grad()
for step in range(8):
    noise = torch.randn(8, 4, generator=noises)
    critic(-generator(noise)).mean().backward()  # noise
    critic.zero_grad()
    average(generator, optimizers[0])
    critic(generator(noise).detach()).mean().backward()
    critic(-torch.randn(8, 16, generator=samples)).mean().backward()  # samples
    average(critic, optimizers[1])
dist.destroy_process_group()
"""


@pytest.mark.parametrize("way", ["samples", pytest.param("noise", marks=pytest.mark.slow)])
def test_batches_of_which_some_are_the_same_are_told(way: str, tmp_path: Path) -> None:
    (found,) = (
        one
        for one in findings_of(tmp_path, ADVERSARIES.format(way=way))
        if one.kind is FindingKind.DATA
    )
    assert "of the first" in found.what and found.remark
    assert way in marked(found)


@pytest.mark.slow
def test_what_each_draws_and_all_reduce_is_left_alone(tmp_path: Path) -> None:
    found = findings_of(tmp_path, ADVERSARIES.format(way="neither"))
    assert not [one for one in found if one.kind is not FindingKind.SLOW]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "what"),
    [("generator", "Parameters 0, 1, 2 and 3 of the optimizer"), ("in one", "Parameter")],
)
def test_what_is_left_out_of_one_of_two_models_is_told(way: str, what: str, tmp_path: Path) -> None:
    told = findings_of(tmp_path, ADVERSARIES.format(way=way))
    found = [one for one in told if "trained but not reduced" in one.what]
    assert found and all(one.what.startswith(what) for one in found)
    assert marked(found[0]) == {"steps"}
