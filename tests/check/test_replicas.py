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
