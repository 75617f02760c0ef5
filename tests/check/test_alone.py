"""Ranks that each train a model of their own: told where they are meant to be replicas."""

from pathlib import Path

import pytest

from forked import forked_python
from observed_scripts import findings_of, marked
from steptime.check.finding import FindingKind

TRAINING = """
import torch.distributed.nn.functional as differentiable
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
way = {way!r}
torch.manual_seed(0)
data = TensorDataset(torch.randn(192, 32))
split = None if way in ("folds", "broadcast", "by hand") else DistributedSampler(data)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
table = nn.Embedding(4096, 32)
for parameter in model.parameters() if way == "broadcast" else ():
    dist.broadcast(parameter.data, 0)
if way == "hooks":
    for parameter in model.parameters():
        parameter.register_hook(lambda of: dist.all_reduce(of))
if way == "shared memory":
    model.share_memory()
optimizer = torch.optim.SGD(
    (table if way == "tables" else model).parameters(), lr=0.01 * (1 + rank * (way == "folds"))
)
torch.manual_seed(1 + rank)
for number, (rows,) in enumerate(DataLoader(data, batch_size=8, sampler=split)):
    if way == "tables":
        found = table(torch.randint(0, 4096, (8,))).chunk(size)
        found = [one.contiguous() for one in found]
        got = differentiable.all_to_all([torch.empty_like(one) for one in found], found)
        loss = (torch.cat(list(got)) - rows).square().mean()
    elif way == "inner loops":
        own = nn.Linear(32, 32)
        inner = torch.optim.SGD(own.parameters(), lr=0.01)
        for _ in range(5):
            inner.zero_grad()
            own(rows).square().mean().backward()
            inner.step()
        continue
    else:
        loss = (model(rows) - rows).square().mean()
    optimizer.zero_grad()
    loss.backward()
    if way == "messages":
        pair = [dist.P2POp(call, torch.ones(8), 1 - rank) for call in (dist.isend, dist.irecv)]
        [work.wait() for work in dist.batch_isend_irecv(pair)]
    optimizer.step()  # steps
    if way == "few" and number == 2:
        break
    total = loss.detach().clone()
    dist.all_reduce(total)
    if way == "averaged and sent" and number % 4 == 3:
        for parameter in model.parameters():
            dist.all_reduce(parameter.data)
            parameter.data /= size
    if way in ("sent", "averaged and sent") and number % 4 == 3:
        for parameter in model.parameters():
            dist.broadcast(parameter.data, 0)  # sends
    if way == "sent in one" and number % 4 == 3:
        flat = nn.utils.parameters_to_vector(model.parameters()).detach()
        dist.broadcast(flat, 0)  # sends
        nn.utils.vector_to_parameters(flat, model.parameters())
if way == "averaged":
    for parameter in model.parameters():
        dist.all_reduce(parameter.data)
        parameter.data /= size
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("sampler", "in 12 steps of the optimizer nothing as large as its gradients went between"),
        pytest.param(
            *("broadcast", "its parameters were broadcast before the first of them"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_ranks_that_are_meant_to_be_replicas_are_told(way: str, words: str, tmp_path: Path) -> None:
    told = findings_of(tmp_path, TRAINING.format(way=way))
    (found,) = (one for one in told if one.kind is not FindingKind.SLOW)
    assert found.kind is FindingKind.DRIFT
    assert words in found.what
    assert sorted(found.ranks) == [0, 1]
    assert marked(found) == {"steps"}


@pytest.mark.parametrize("way", ["sent", pytest.param("sent in one", marks=pytest.mark.slow)])
def test_ranks_that_take_the_parameters_of_one_lose_their_own(way: str, tmp_path: Path) -> None:
    told = findings_of(tmp_path, TRAINING.format(way=way))
    (found,) = (one for one in told if one.kind is not FindingKind.SLOW)
    assert found.kind is FindingKind.DRIFT
    assert "takes the parameters of rank 0 3 times in 12 steps of the optimizer" in found.what
    assert marked(found) == {"sends"}


@pytest.mark.slow
def test_ranks_that_only_begin_and_step_alike_are_a_remark(tmp_path: Path) -> None:
    told = findings_of(tmp_path, TRAINING.format(way="by hand"))
    (found,) = (one for one in told if one.kind is not FindingKind.SLOW)
    assert found.remark
    assert "and all began with the same parameters" in found.what


@pytest.mark.parametrize(
    "way",
    [
        "tables",
        *(
            pytest.param(way, marks=pytest.mark.slow)
            for way in (
                *("averaged", "averaged and sent", "few", "folds"),
                *("hooks", "inner loops", "messages"),
            )
        ),
        pytest.param("shared memory", marks=pytest.mark.slow),
    ],
)
def test_what_is_reduced_or_meant_otherwise_is_left_alone(way: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, TRAINING.format(way=way))
    assert not [
        one for one in found if "model of its own" in one.what or "its own, and takes" in one.what
    ]


@pytest.mark.slow
def test_ranks_without_a_group_are_a_remark(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Linear(8, 8)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(12):\n"
        "    model(torch.randn(4, 8)).square().mean().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
    )
    words = ["-m", "steptime", "check", "--ranks", "2", "--out", str(tmp_path / "run")]
    done = forked_python(*words, str(script), folder=tmp_path)
    assert done.code == 0, done.err
    assert "2 ranks were started, and the script makes no group of them" in " ".join(
        done.out.split()
    )


@pytest.mark.slow
def test_a_rank_that_is_alone_has_nobody_to_reduce_with(tmp_path: Path) -> None:
    found = findings_of(tmp_path, TRAINING.format(way="sampler"), ranks=1)
    assert [one for one in found if one.kind is not FindingKind.SLOW] == []
