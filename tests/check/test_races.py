"""Races of scripts with their calls: each is found at its line, and what is right is left alone."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from cli.command import HANG_S, Ended
from observed_scripts import findings_of, marked
from steptime.check.finding import FindingKind

FAULTS = """
t, u, other = torch.ones(1000), torch.zeros(1000), 1 - rank
if rank == 0:
    handle = dist.isend(t, other)  # sends
    t.add_(1)  # writes
else:
    handle = dist.irecv(u, other)  # receives
    u.sum()  # reads
handle.wait()
weight, handles = torch.zeros(10, requires_grad=True), []
def reduce(p):
    handles.append(dist.all_reduce(p.grad, async_op=True))  # reduces
weight.register_post_accumulate_grad_hook(reduce)
optimizer = torch.optim.SGD([weight], lr=0.1)
(weight * 3).sum().backward()
optimizer.step()  # steps
for handle in handles:
    handle.wait()
dist.all_gather([u] * size, t)  # doubles
first = dist.all_reduce(t[:600], async_op=True)  # shared
second = dist.all_reduce(t[400:], async_op=True)  # shares
first.wait(), second.wait()
dist.all_reduce(torch.ones(4), async_op=True)  # forgets
dist.broadcast(torch.ones(4, 4)[:, 0], 0)  # gaps
whole = torch.zeros(2000)  # gathered by a name that is deprecated
handle = dist.all_gather_into_tensor(whole, t, async_op=True)  # gathers
whole.sum()  # looks
handle.wait()
dist.barrier()
dist.destroy_process_group()
"""

TWINS = """
t, u, other = torch.ones(1000), torch.zeros(1000), 1 - rank
sent, received = dist.isend(t, other), dist.irecv(u, other)
t.sum(), torch.empty_like(u), u.view(10, 100).shape
sent.wait(), received.wait()
t.add_(u)
weight, handles = torch.zeros(10, requires_grad=True), []
weight.register_post_accumulate_grad_hook(
    lambda p: handles.append(dist.all_reduce(p.grad, async_op=True))
)
optimizer = torch.optim.SGD([weight], lr=0.1)
(weight * 3).sum().backward()
for handle in handles:
    handle.wait()
optimizer.step()
dist.all_gather([torch.empty_like(u) for _ in range(size)], t)
table = torch.zeros(4, 4)
first = dist.all_reduce(table[0], async_op=True)
second = dist.all_reduce(table[1], async_op=True)
table[:, 3][2:].add_(1)
dist.all_gather([torch.zeros(4) for _ in range(size)], torch.ones(4, 4)[:, 0])
dist.all_reduce(torch.ones(4, 3).t())
first.wait(), second.wait()
handle = dist.all_reduce(t, async_op=True)
handle.get_future().wait()
handle = dist.all_reduce(torch.ones(4), async_op=True)
while not handle.is_completed():
    pass
both = [dist.P2POp(dist.isend, t, other), dist.P2POp(dist.irecv, u, other)]
for handle in dist.batch_isend_irecv(both):
    handle.wait()
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
for wrap in (DistributedDataParallel, fully_shard):
    model = wrap(torch.nn.Sequential(torch.nn.Linear(100, 100), torch.nn.Linear(100, 100)))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.randn(3, 100)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
"""

# A script that compiles nothing must not wait for the compiler to be imported: calls end meanwhile.
LATE = """
import sys
t = torch.ones(1 << 20)
handle = dist.all_reduce(t, async_op=True)  # reduces
t.sum()  # reads
if "torch._dynamo" in sys.modules:
    raise SystemExit("the compiler was imported")
handle.wait()
compiled = torch.compile(torch.nn.Linear(4, 4), backend="eager")
for _ in range(2):
    handle = dist.all_reduce(t, async_op=True)
    compiled(torch.ones(2, 4)).sum().backward()
    handle.wait()
from torch._dynamo.utils import counters
if counters["frames"] != {"total": 1, "ok": 1}:
    raise SystemExit(f"other frames were compiled too: {counters}")
dist.destroy_process_group()
"""


def test_each_race_is_found_at_its_lines(tmp_path: Path) -> None:
    found = [one for one in findings_of(tmp_path, FAULTS) if one.kind is FindingKind.RACE]
    lines = [(tuple(one.ranks), sorted(marked(one))) for one in found]
    both = (0, 1)
    expected = [
        ((0,), ["sends", "writes"]),
        ((1,), ["reads", "receives"]),
        (both, ["reduces", "steps"]),
        (both, ["doubles"]),
        (both, ["shared", "shares"]),
        (both, ["forgets"]),
        (both, ["gaps"]),
        (both, ["gathers", "looks"]),
    ]
    assert sorted(lines) == sorted(expected)
    assert all(one.mend and one.what for one in found)


@pytest.mark.slow
def test_all_that_uses_the_memory_of_one_call_is_one_finding(tmp_path: Path) -> None:
    body = """
t = torch.ones(1 << 22)
dist.all_reduce(t, async_op=True)  # reduces
t /= 2  # writes
t.sum()
t.add_(1)
dist.barrier()
dist.destroy_process_group()
"""
    (found,) = (one for one in findings_of(tmp_path, body) if one.kind is FindingKind.RACE)
    assert marked(found) == {"reduces", "writes"}
    assert "chance; script.py:11 and script.py:12 use it, too" in found.what


def test_calls_that_are_waited_for_are_no_race(tmp_path: Path) -> None:
    assert [one.what for one in findings_of(tmp_path, TWINS) if one.kind is FindingKind.RACE] == []


@pytest.mark.slow
def test_to_watch_an_operator_needs_no_compiler(tmp_path: Path) -> None:
    found = [
        one for one in findings_of(tmp_path, LATE, start=_start) if one.kind is FindingKind.RACE
    ]
    assert [sorted(marked(one)) for one in found] == [["reads", "reduces"]]


def _start(*words: str, folder: Path, environ: Mapping[str, str]) -> Ended:
    """Run ``python WORDS`` as a new process, in which nothing has been imported."""
    command = [sys.executable, *words]
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=HANG_S
    )
    return Ended(done.returncode, done.stdout, done.stderr, 0.0)


OUTSIDE = """
pair = dist.new_group([0, 1])
alone = dist.new_group([0])
value = torch.ones(4)
for _ in range(3):
    dist.all_reduce(value, group=alone)  # reduces
dist.all_reduce(value, group=pair)
dist.destroy_process_group()
"""


def test_a_call_in_a_group_of_others_is_told(tmp_path: Path) -> None:
    (found,) = findings_of(tmp_path, OUTSIDE)
    assert (found.kind, list(found.ranks), marked(found)) == (FindingKind.RACE, [1], {"reduces"})
    assert "in a group that it is not in" in found.what
