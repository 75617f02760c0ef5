"""Replicas that nothing keeps equal: each fault is found at its line, its twin is left alone."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from recorded_scripts import OF_A_LIBRARY
from steptime.check.finding import Finding, FindingKind

TRAINING = """
from torch.nn.parallel import DistributedDataParallel
torch.manual_seed(rank)
fault = {fault!r}
net = torch.nn.Sequential(torch.nn.Linear(20, 20), torch.nn.Linear(20, 5))
net[0].requires_grad_(fault != "unfrozen")
if fault.startswith("by hand"):
    model = net
    for parameter in net.parameters() if fault == "by hand" else ():
        dist.broadcast(parameter.data, 0)
else:
    model = DistributedDataParallel(net)
dtype = torch.double if fault == "moved" else torch.float
if fault == "moved":
    model.to(dtype)  # moved
if fault == "late":
    net.add_module("2", torch.nn.Linear(5, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    net.requires_grad_(fault != "unfrozen" or step > 2)
    net[1].requires_grad_(True)
    data = torch.randn(4, 20, dtype=dtype)
    run = model
    if fault == "bypassed":
        run = model.module
    if fault in ("quiet", "accumulated"):
        with model.no_sync():
            model(data).square().mean().backward()
    if fault != "quiet":
        run(data).square().mean().backward()  # forward
    for parameter in net.parameters() if fault.startswith("by hand") else ():
        dist.all_reduce(parameter.grad)
    if fault == "skipped" and rank == 1 and step == 2:
        continue
    if fault == "skipped last" and rank == 1 and step == 4:
        continue
    optimizer.step()  # step
    optimizer.zero_grad()
with torch.no_grad():
    net(data)
dist.barrier()
dist.destroy_process_group()
"""

CLOSURE = """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(20, 5))
plain = torch.optim.SGD(model.parameters(), lr=0.1)
searching = torch.optim.LBFGS(model.parameters(), max_iter=3)

def made():
    searching.zero_grad()
    loss = model(data).square().mean()
    loss.backward()
    return loss

data = torch.randn(4, 20)
for step in range(4):
    with model.no_sync():
        model(data).square().mean().backward()
    plain.step(lambda: model(data).square().mean().backward())
    plain.zero_grad()
    searching.step(closure=made)
dist.destroy_process_group()
"""

REPLACED = """
net = torch.nn.Sequential(torch.nn.Linear(20, 20), torch.nn.Linear(20, 5))
model = torch.nn.parallel.DistributedDataParallel(net)
net[1] = torch.nn.Linear(20, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.randn(4, 20)).square().mean().backward()
optimizer.step()  # step
dist.destroy_process_group()
"""

AVERAGED = """
from torch.nn.parallel import DistributedDataParallel
way = {way!r}
net = torch.nn.Sequential(torch.nn.Linear(20, 20), torch.nn.Linear(20, 5))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
began = [one.detach().clone() for one in model.parameters()]
torch.manual_seed(rank)
with model.no_sync():
    for step in range(1, 10):
        model(torch.randn(4, 20)).square().mean().backward()
        optimizer.step()  # step
        optimizer.zero_grad()
        if step % 3 or way == "never":
            continue
        values = [one.data for one in model.parameters()]
        if way == "in one":
            values = [torch.cat([one.flatten() for one in values])]
        if way == "changes":
            values = [one - before for one, before in zip(values, began)]
        for one in values:
            dist.all_reduce(one)
        with torch.no_grad():
            if way == "in one":
                torch.nn.utils.vector_to_parameters(values[0] / 2, model.parameters())
            for one, value, before in zip(model.parameters(), values, began):
                if way == "changes":
                    before += value / 2
                    one.copy_(before)
                if way == "each":
                    one /= 2
dist.destroy_process_group()
"""

IN_TURN = """
from contextlib import nullcontext
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(20, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)
for step in range(4):
    with model.no_sync() if step % 2 == rank else nullcontext():
        model(torch.randn(4, 20)).square().mean().backward()
    model(torch.randn(4, 20)).square().mean().backward()
    optimizer.step()  # step
    optimizer.zero_grad()
dist.destroy_process_group()
"""

UNUSED = """
net = torch.nn.ModuleList([torch.nn.Linear(20, 5), torch.nn.Linear(20, 5)])
net.forward = lambda data: net[0](data)
model = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.randn(4, 20)).square().mean().backward()
optimizer.step()  # step
dist.destroy_process_group()
"""

ENSEMBLE = """
torch.manual_seed(rank)
member = torch.nn.Linear(20, 5)
optimizer = torch.optim.SGD(member.parameters(), lr=0.1)
for step in range(5 + rank):
    member(torch.randn(4, 20)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.all_reduce(member(torch.ones(4, 20)).detach())
dist.destroy_process_group()
"""


def _drift(folder: Path, fault: str) -> list[Finding]:
    found = findings_of(folder, TRAINING.format(fault=fault))
    return [one for one in found if one.kind is FindingKind.DRIFT]


@pytest.mark.parametrize(
    ("fault", "line", "ranks", "words"),
    [
        ("bypassed", "forward", [0, 1], "beside its DistributedDataParallel"),
        ("skipped", "step", [0, 1], "rank 1 left out an optimizer step"),
        pytest.param("moved", "moved", [0, 1], "hooks of DDP are lost", marks=pytest.mark.slow),
        pytest.param("quiet", "step", [0, 1], "within no_sync", marks=pytest.mark.slow),
        pytest.param("late", "step", [0, 1], "2.weight of Sequential", marks=pytest.mark.slow),
        pytest.param("unfrozen", "step", [0, 1], "or was made trainable", marks=pytest.mark.slow),
        pytest.param(
            "by hand unequal", "step", [0, 1], "before the first step", marks=pytest.mark.slow
        ),
        pytest.param("skipped last", "step", [0, 1], "rank 1 made 4 steps", marks=pytest.mark.slow),
    ],
)
def test_a_fault_is_found_at_its_line(
    tmp_path: Path, fault: str, line: str, ranks: list[int], words: str
) -> None:
    (found,) = _drift(tmp_path, fault)
    assert marked(found) == {line}
    assert found.ranks == ranks
    assert words.lower() in found.what.lower()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "ranks", "words"),
    [
        (IN_TURN, [0], "rank 0 runs the model within no_sync where rank 1 reduced the gradients"),
        (UNUSED, [0, 1], "though 1.weight of ModuleList got no gradient"),
        (REPLACED, [0, 1], "1.weight of sequential was replaced"),
    ],
)
def test_why_gradients_were_not_reduced_is_told(
    tmp_path: Path, body: str, ranks: list[int], words: str
) -> None:
    (found,) = (one for one in findings_of(tmp_path, body) if one.kind is FindingKind.DRIFT)
    assert (marked(found), found.ranks) == ({"step"}, ranks)
    assert words in found.what.lower().replace("modulelist", "ModuleList")


@pytest.mark.parametrize(
    "fault",
    ["none", *(pytest.param(f, marks=pytest.mark.slow) for f in ("accumulated", "by hand"))],
)
def test_replicas_that_are_kept_equal_are_left_alone(tmp_path: Path, fault: str) -> None:
    assert _drift(tmp_path, fault) == []


@pytest.mark.slow
def test_gradients_that_a_closure_makes_in_the_step_count(tmp_path: Path) -> None:
    assert findings_of(tmp_path, CLOSURE) == []


@pytest.mark.parametrize(
    "way", ["each", *(pytest.param(f, marks=pytest.mark.slow) for f in ("in one", "changes"))]
)
def test_replicas_that_are_averaged_now_and_then_may_differ(tmp_path: Path, way: str) -> None:
    found = findings_of(tmp_path, AVERAGED.format(way=way))
    assert not [one for one in found if one.kind is FindingKind.DRIFT]


@pytest.mark.slow
def test_replicas_that_are_never_averaged_drift(tmp_path: Path) -> None:
    (found,) = findings_of(tmp_path, AVERAGED.format(way="never"))
    assert (found.kind, marked(found)) == (FindingKind.DRIFT, {"step"})


def test_a_group_that_torch_does_not_know_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STORE", str(tmp_path / "store"))
    assert findings_of(tmp_path, OF_A_LIBRARY) == []


def test_ranks_that_train_models_of_their_own_are_left_alone(tmp_path: Path) -> None:
    assert findings_of(tmp_path, ENSEMBLE) == []


RATES = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(nn.Linear(4, 4))
rate = 0.1 if rank == 0 else 0.2
optimizer = torch.optim.SGD(
    [{"params": model.module.weight}, {"params": model.module.bias, "lr": torch.tensor(rate)}],
    lr=torch.tensor(0.1),
    weight_decay=0.0,
)
optimizer.param_groups[0]["bound"] = float("inf")  # no number that JSON has
for step in range(3):
    model(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()  # steps
    optimizer.zero_grad()
dist.destroy_process_group()
"""
ORDER = """
from torch import nn
net = nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in range(3)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
parameters = list(net.parameters())
for step in range(3):
    net(torch.randn(2, 4)).square().mean().backward()
    for parameter in reversed(parameters) if rank else parameters:
        dist.all_reduce(parameter.grad)
    optimizer.step()  # steps
    optimizer.zero_grad()
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (RATES, "steps with a lr of 0.1 on rank 0 and 0.2 on rank 1: the parameters differ"),
        (ORDER, "reduction 1 of the step has that of parameter 0 on rank 0 and parameter 2 on"),
    ],
)
def test_why_replicas_differ_is_told(tmp_path: Path, body: str, words: str) -> None:
    (found,) = findings_of(tmp_path, body)
    assert found.kind is FindingKind.DRIFT
    assert words in found.what
    assert marked(found) == {"steps"}


LEFT_OUT = """
from torch import nn
way = {way!r}
torch.manual_seed(0)
net = nn.Sequential(*(nn.Linear(16, 16, bias=way != "other") for _ in range(3)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(3):
    net(torch.randn(2, 16)).square().mean().backward()
    for number, parameter in enumerate(net.parameters()):
        if parameter.ndim > 1 and not (way == "other" and number == rank):
            dist.all_reduce(parameter.grad)
    if way == "in a vector":
        biases = torch.cat([one.bias.grad for one in net])
        dist.all_reduce(biases)
        for one, summed in zip(net, biases.split(16)):
            one.bias.grad = summed
    if way == "shared":
        dist.all_gather([torch.empty(8), torch.empty(8)], torch.ones(8))
    optimizer.step()  # steps
    optimizer.zero_grad()
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("", "Parameters 1, 3 and 5 of the optimizer are trained but not reduced"),
        pytest.param(
            *("other", "rank 1 has that of parameter 0, and others do not"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_parameters_that_are_left_out_are_told(way: str, words: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, LEFT_OUT.format(way=way))
    (told,) = (one for one in found if words in one.what)
    assert told.kind is FindingKind.DRIFT
    assert marked(told) == {"steps"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["in a vector", "shared"])
def test_what_may_be_reduced_or_shared_otherwise_is_left_alone(way: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, LEFT_OUT.format(way=way))
    assert not [one for one in found if "not reduced" in one.what]


BESIDE = """
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
way = {way!r}
torch.manual_seed(0)
body, head = nn.Sequential(nn.Linear(32, 96), nn.ReLU()), nn.Linear(96, 8)
if way.startswith("sharded"):
    fully_shard(body[0])
else:
    body = DistributedDataParallel(body)
if way == "hooked":
    for parameter in head.parameters():
        parameter.register_hook(lambda gradient: dist.all_reduce(gradient))
if way == "tables":
    torch.manual_seed(5 + rank)
    head = nn.Linear(96, 8)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
torch.manual_seed(1 + rank)
for step in range(4):
    head(body(torch.randn(8, 32))).square().mean().backward()
    if way == "sharded, by hand":
        for parameter in head.parameters():
            dist.all_reduce(parameter.grad)
    optimizer.step()  # steps
    optimizer.zero_grad()
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("way", "mend"),
    [
        pytest.param("replicated", "rap the whole model", marks=pytest.mark.slow),
        ("sharded", "all fully_shard on the whole model last"),
    ],
)
def test_what_stands_beside_a_model_is_told(way: str, mend: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, BESIDE.format(way=way))
    (told,) = (one for one in found if one.kind is FindingKind.DRIFT)
    assert "are trained but not reduced" in told.what
    assert mend in told.mend
    assert marked(told) == {"steps"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["hooked", "sharded, by hand", "tables"])
def test_what_is_reduced_or_not_the_same_is_left_alone(way: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, BESIDE.format(way=way))
    assert not [one for one in found if one.kind is FindingKind.DRIFT]


IDLE = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
way = {way!r}
model = nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 4))
if way == "ddp":
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    if way != "ddp":
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
    if way == "cleared":
        optimizer.zero_grad()
    if rank == 0 or step < 3 * (way == "later") or way == "cleared":
        optimizer.step()  # steps
    if way == "a server":
        for parameter in model.parameters():
            dist.broadcast(parameter.data, 0)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("way", [pytest.param("ddp", marks=pytest.mark.slow), "by hand"])
def test_an_optimizer_that_steps_on_some_ranks_alone_is_told(way: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, IDLE.format(way=way))
    (told,) = (one for one in found if "makes no step on rank 1" in one.what)
    assert (told.kind, told.ranks) == (FindingKind.DRIFT, [1])
    assert "steps" in marked(told)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["a server", "later"])
def test_ranks_that_are_given_parameters_need_no_step(way: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, IDLE.format(way=way))
    assert not [one for one in found if "makes no step" in one.what]


@pytest.mark.slow
def test_gradients_that_are_cleared_before_their_step_are_told(tmp_path: Path) -> None:
    found = findings_of(tmp_path, IDLE.format(way="cleared"))
    (told,) = (one for one in found if one.kind is FindingKind.RACE)
    assert "after its gradients were cleared" in told.what
    assert marked(told) == {"steps"}


NORMS = """
import torch.distributed.nn.functional as differentiable
from torch import nn
way = {way!r}
torch.manual_seed(0)
norm = nn.LayerNorm(32)
torch.manual_seed(1 + rank)
first, second = nn.Linear(32, 128 // size, bias=False), nn.Linear(128 // size, 32, bias=False)
parameters = [*norm.parameters(), *first.parameters(), *second.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)
torch.manual_seed(0)
for step in range(4):
    whole = torch.randn(16, 32)
    if way == "whole tokens":
        hidden = norm(whole)
        hidden.register_hook(lambda gradient: (dist.all_reduce(gradient), gradient)[1])
        out = differentiable.all_reduce(second(torch.relu(first(hidden)))) / size
    else:
        own = whole.chunk(size)[rank]
        hidden = torch.cat(differentiable.all_gather(norm(own)))
        out = differentiable.all_reduce(second(torch.relu(first(hidden)))).chunk(size)[rank]
    out.square().mean().backward()
    for parameter in norm.parameters() if way == "reduced" else ():
        dist.all_reduce(parameter.grad)
    optimizer.step()  # steps
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def test_norms_of_a_part_of_the_tokens_are_told(tmp_path: Path) -> None:
    found = findings_of(tmp_path, NORMS.format(way=""))
    (told,) = (one for one in found if one.kind is FindingKind.DRIFT)
    assert "Parameters 0 and 1" in told.what
    assert "norms that the ranks share each layer around" in told.what
    assert marked(told) == {"steps"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["reduced", "whole tokens"])
def test_norms_that_are_reduced_or_see_all_tokens_are_left_alone(way: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, NORMS.format(way=way))
    assert not [one for one in found if one.kind is FindingKind.DRIFT]
