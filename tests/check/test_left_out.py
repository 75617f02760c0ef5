"""What is trained and not reduced, or reduced and not trained, where the rest is."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import FindingKind

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


BUCKETS = """
from torch import nn
way = {way!r}
torch.manual_seed(0)
net = nn.Sequential(*(nn.Linear(16, 16) for _ in range(5)))
bucket, sent = [], []

def send():
    flat = torch.cat([one.grad.flatten() for one in bucket])
    sent.append((flat, bucket[:], dist.all_reduce(flat, async_op=True)))
    bucket.clear()

def made(parameter):
    bucket.append(parameter)
    if len(bucket) == 4:
        send()

for parameter in net.parameters():
    parameter.register_post_accumulate_grad_hook(made)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(3):
    net(torch.randn(2, 16)).square().mean().backward()
    if way == "all":
        send()
    bucket.clear()
    for flat, of, work in sent:
        work.wait()
        for one, summed in zip(of, flat.split([each.numel() for each in of])):
            one.grad.copy_(summed.view_as(one))
    sent.clear()
    optimizer.step()  # steps
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def test_a_bucket_that_is_never_sent_is_told(tmp_path: Path) -> None:
    (found,) = findings_of(tmp_path, BUCKETS.format(way="but the last"))
    assert found.what.startswith("Parameters 0 and 1 of the optimizer are trained but not reduced")
    assert marked(found) == {"steps"}


@pytest.mark.slow
def test_buckets_that_are_all_sent_are_left_alone(tmp_path: Path) -> None:
    found = findings_of(tmp_path, BUCKETS.format(way="all"))
    assert [one for one in found if one.kind is FindingKind.DRIFT] == []


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
norm, gate = nn.LayerNorm(32), nn.Linear(32, 32)
torch.manual_seed(1 + rank)
first, second = nn.Linear(32, 128 // size, bias=False), nn.Linear(128 // size, 32, bias=False)
gates = [*gate.parameters()] if way == "experts" else []
parameters = [*norm.parameters(), *gates, *first.parameters(), *second.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)
torch.manual_seed(0)
for step in range(4):
    whole = torch.randn(16, 32)
    if way == "whole tokens":
        hidden = norm(whole)
        hidden.register_hook(lambda gradient: (dist.all_reduce(gradient), gradient)[1])
        out = differentiable.all_reduce(second(torch.relu(first(hidden)))) / size
    elif way in ("exchanged", "experts"):
        own = whole.chunk(size)[rank]
        own = norm(gate(own) if way == "experts" else own)
        parts = [one.contiguous() for one in own.chunk(size)]
        got = differentiable.all_to_all([torch.empty_like(one) for one in parts], parts)
        out = second(torch.relu(first(torch.cat(list(got)))))
    else:
        own = whole.chunk(size)[rank]
        hidden = torch.cat(differentiable.all_gather(norm(own)))
        out = differentiable.all_reduce(second(torch.relu(first(hidden)))).chunk(size)[rank]
    out.square().mean().backward()
    for parameter in gates:
        dist.all_reduce(parameter.grad)
    for parameter in norm.parameters() if way == "reduced" else ():
        dist.all_reduce(parameter.grad)
    optimizer.step()  # steps
    optimizer.zero_grad()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("way", ["", pytest.param("exchanged", marks=pytest.mark.slow)])
def test_norms_of_a_part_of_the_tokens_are_told(way: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, NORMS.format(way=way))
    (told,) = (one for one in found if one.kind is FindingKind.DRIFT)
    assert "Parameters 0 and 1" in told.what
    assert "norms that the ranks share each layer around" in told.what
    assert marked(told) == {"steps"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["reduced", "whole tokens", "experts"])
def test_norms_that_are_reduced_or_see_all_tokens_are_left_alone(way: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, NORMS.format(way=way))
    assert not [one for one in found if one.kind is FindingKind.DRIFT and not one.remark]


HELD_BACK = """
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
way = {way!r}
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 4))
if way == "sharded":
    fully_shard(model[0])
    fully_shard(model)
    model.set_requires_gradient_sync(False)
else:
    model = DistributedDataParallel(model)

def unreduced(state, bucket):
    made = torch.futures.Future()
    made.set_result(bucket.buffer())
    return made

if way == "hook":
    model.register_comm_hook(None, unreduced)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(5):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 16)).square().mean()
    if way == "grad":
        made = torch.autograd.grad(loss, list(model.parameters()))
        for parameter, gradient in zip(model.parameters(), made):
            parameter.grad = gradient
    else:
        loss.backward()
    optimizer.step()  # steps
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("hook", "with a communication hook that reduces nothing"),
        ("grad", "that no backward made"),
        ("sharded", "though the gradients of each backward are held back"),
    ],
)
def test_why_nothing_is_reduced_is_told(way: str, words: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, HELD_BACK.format(way=way))
    (told,) = (one for one in found if one.kind in (FindingKind.DRIFT, FindingKind.RACE))
    assert words in told.what
    assert marked(told) == {"steps"}


SHARDED = """
from torch import nn
way = {way!r}

class Shard:
    def __init__(self, weight):
        self.weight, self.whole = weight, weight.shape
        self.own = nn.Parameter(weight.data.flatten().chunk(size)[rank].clone())
        weight.register_post_accumulate_grad_hook(self.reduce)
    def gather(self, *_):
        full = torch.empty(self.whole)
        dist.all_gather_into_tensor(full.view(-1), self.own.data)
        self.weight.data = full
    def reduce(self, weight):
        self.own.grad = torch.empty_like(self.own)
        dist.reduce_scatter_tensor(self.own.grad, weight.grad.flatten() / size)
        weight.grad = None

torch.manual_seed(0)
layers = [nn.Linear(32, 32, bias=False) for _ in range(4)]
shards = [Shard(layer.weight) for layer in layers]
norm = nn.LayerNorm(32) if way == "norm" else nn.Linear(32, 32)
model = nn.Sequential(*layers[:2], norm, *layers[2:])
optimizer = torch.optim.AdamW([*(one.own for one in shards), *norm.parameters()], lr=1e-3)
for layer, shard in zip(layers, shards):
    layer.register_forward_pre_hook(shard.gather)
torch.manual_seed(1 + rank)
for step in range(5):
    rows = torch.randn(8, 32)
    optimizer.zero_grad()
    (model(rows) - rows).square().mean().backward()
    if way == "reduced":
        for parameter in norm.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= size
    optimizer.step()  # steps
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["norm", "linear"])
def test_what_stands_beside_shards_of_a_script_is_told(way: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, SHARDED.format(way=way))
    (drift,) = (one for one in found if one.kind is FindingKind.DRIFT)
    assert "Parameters 4 and 5 of the optimizer are trained but not reduced" in drift.what
    assert "the backward reduces the gradients of others" in drift.what
    assert marked(drift) == {"steps"}


@pytest.mark.slow
def test_shards_of_a_script_are_left_alone(tmp_path: Path) -> None:
    found = findings_of(tmp_path, SHARDED.format(way="reduced"))
    assert [one for one in found if one.kind is not FindingKind.SLOW] == []
