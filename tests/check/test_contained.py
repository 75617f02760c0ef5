"""What a check only observes with fails alone: the script goes on."""

from pathlib import Path

import pytest

from forked import forked
from observed_scripts import findings_of
from recorded_scripts import OF_A_LIBRARY
from steptime.check.observe.contained import Contained


def test_a_look_that_fails_is_told_once_and_is_the_last(capsys: pytest.CaptureFixture[str]) -> None:
    looked: list[int] = []

    def look(at: int) -> int:
        looked.append(at)
        return 1 // at

    contained = Contained("races")
    first, other = contained.of(look), contained.of(looked.append)
    assert first(1) == 1
    assert first(0) is None
    assert first(1) is None
    other(2)
    assert looked == [1, 0]
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "watches no races in this rank from here on" in told
    assert "ZeroDivisionError" in told


def test_a_script_whose_groups_no_observer_knows_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    rankless = "    def rank(self):\n        raise RuntimeError('it has none')\n    def allreduce"
    script.write_text(OF_A_LIBRARY.replace("    def allreduce", rankless))
    command = ["check", "--ranks", "2", "--out", str(tmp_path / "run"), str(script)]
    ended = forked(*command, folder=tmp_path, environ={"STORE": str(tmp_path / "store")})
    assert ended.code == 0, ended.err
    assert "Nothing was found." in ended.out
    assert ended.err.count("watches no races") == 2
    assert "it has none" in ended.err


def test_a_model_whose_ranks_no_observer_can_tell_is_trained(tmp_path: Path) -> None:
    body = """
from steptime.world import compat
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(torch.nn.Linear(4, 4))
compat.ranks_of = None
model(torch.ones(2, 4)).sum().backward()
"""
    findings_of(tmp_path, body)  # which asserts that the script ends well


COMPILED = """
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.Linear(64, 8))
model = nn.parallel.DistributedDataParallel(net)
run = torch.compile(model, backend="eager") if rank else model
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    run(torch.randn(8, 32)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_the_compiler_leaves_alone_what_looks_at_calls(tmp_path: Path) -> None:
    assert findings_of(tmp_path, COMPILED) == []


ITERATED = """
weight = torch.ones(3, requires_grad=True)
torch.autograd.backward(part for part in ((weight * 2).sum(), (weight * 3).sum()))
assert weight.grad.tolist() == [5, 5, 5]
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_what_a_backward_goes_through_once_is_left_to_it(tmp_path: Path) -> None:
    assert findings_of(tmp_path, ITERATED) == []
