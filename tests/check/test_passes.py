"""Habits between the steps: workers started anew, evaluations, saves, objects, broadcasts."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind
from steptime.check.judges import evaluations, loaders, saving

BODY = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, get_worker_info
habit = {habit!r}
torch.set_num_threads(1)
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 512), nn.Linear(512, 512)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(1 + rank)

class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        draw = torch.Generator().manual_seed(rank)
        for number in range(64):
            sample = torch.randn(64, generator=draw)
            if habit == "a stream" or number % 2 == worker.id:
                yield (sample,)

data = Stream() if "stream" in habit else TensorDataset(torch.randn(32, 64))
loader = DataLoader(
    data,
    batch_size=8,
    num_workers=2 if "worker" in habit or "stream" in habit else 0,
    persistent_workers="stay" in habit or "stream" in habit,
)
if habit == "whole tensors":
    from torch.distributed.tensor import DeviceMesh, Shard, distribute_tensor
    mesh = DeviceMesh("cpu", [0, 1])
    shards = [distribute_tensor(torch.ones(256, 256), mesh, [Shard(0)]) for _ in range(80)]
draw = torch.Generator().manual_seed(rank * ("part" in habit))
held_out = torch.randn(48, 64, 64, generator=draw)
for epoch in range(4):
    for (batch,) in loader:  # passes
        made = model(batch)
        optimizer.zero_grad()
        made.square().mean().backward()
        optimizer.step()
        if habit == "objects":
            dist.all_gather_object([None, None], {{"made": made.detach().repeat(40, 1)}})  # sends
        if habit == "broadcasts":
            for parameter in model.parameters():
                dist.broadcast(parameter.data, 0)  # broadcasts
        if habit == "whole tensors":
            [one.full_tensor() for one in shards]  # gathers
        if habit == "saves" and rank == 1:
            torch.save(torch.ones(1 << 22), "kept.pt")  # saves
    if "evaluates" in habit:
        with torch.no_grad():
            for batch in held_out:
                model.module(batch)  # evaluates
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(autouse=True)
def _of_toys(monkeypatch: pytest.MonkeyPatch) -> None:
    for judge in (evaluations, loaders, saving):
        monkeypatch.setattr(judge, "_LEAST_NS", 1e5)


def _found(folder: Path, habit: str) -> list[Finding]:
    found = findings_of(folder, BODY.format(habit=habit))
    return [one for one in found if "comes last" not in one.what]  # which a busy machine makes


@pytest.mark.parametrize(
    ("habit", "ranks", "line", "words"),
    [
        ("workers", [0, 1], "passes", "starts the DataLoader's workers anew"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("evaluates", [0, 1], "evaluates", "evaluate the same 48 batches, 4 times"),
                ("objects", [0, 1], "sends", "as objects in each step, by all_gather_object"),
                ("saves", [1], "saves", "rank 1 saves 15 times in 15 steps"),
                ("whole tensors", [0, 1], "gathers", "makes whole tensors of shards in each step"),
                ("broadcasts", [0, 1], "broadcasts", "broadcasts 4 tensors in each step"),
            )
        ),
    ],
)
def test_it_is_told_at_its_line(
    habit: str, ranks: list[int], line: str, words: str, tmp_path: Path
) -> None:
    found = _found(tmp_path, habit)
    (told,) = (one for one in found if words.lower() in one.what.lower())
    assert (told.kind, list(told.ranks), marked(told)) == (FindingKind.SLOW, ranks, {line})
    assert told.gain is not None
    assert 0.05 <= told.gain <= 1


@pytest.mark.slow
def test_a_stream_that_every_worker_yields_is_told(tmp_path: Path) -> None:
    (told,) = (one for one in _found(tmp_path, "a stream") if one.kind is FindingKind.DATA)
    assert (list(told.ranks), marked(told), told.remark) == ([0, 1], {"passes"}, True)


@pytest.mark.slow
@pytest.mark.parametrize("habit", ["workers that stay", "a stream in parts", "evaluates a part"])
def test_its_twin_is_left_alone(habit: str, tmp_path: Path) -> None:
    told = [one.what for one in _found(tmp_path, habit)]
    words = ("workers anew", "evaluate the same", "as often as the DataLoader")
    assert not [one for one in told if any(word in one for word in words)]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "told"), [("0", 1), ("rank", 0)])
def test_shards_evaluated_by_all_are_told(seed: str, told: int, tmp_path: Path) -> None:
    body = f"""
from torch import nn
from torch.distributed.fsdp import fully_shard
model = fully_shard(nn.Linear(256, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed({seed})
held_out = torch.randn(100, 16, 256)
torch.manual_seed(1 + rank)
for epoch in range(3):
    for _ in range(3):
        model(torch.randn(16, 256)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        for batch in held_out:
            model(batch)  # evaluates
"""
    found = [one for one in findings_of(tmp_path, body) if "evaluate the same" in one.what]
    assert [(list(one.ranks), marked(one)) for one in found] == [([0, 1], {"evaluates"})] * told
