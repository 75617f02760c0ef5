"""Waits for futures of calls: as waits for the calls themselves."""

import json
from pathlib import Path

import pytest

import recorded_scripts as scripts
from forked import forked
from recorded import record
from steptime.record.read import read_logs

LATE_S = 0.3
WAITS = (
    scripts.START
    + f"""
import time
from torch.futures import collect_all, wait_all
def reduced():
    return dist.all_reduce(torch.ones(8), async_op=True).get_future()
def late():
    dist.barrier()
    if rank == 1:
        time.sleep({LATE_S})
late()
future = reduced()
future.wait()
future.wait()
late()
reduced().then(lambda done: done.value()[0] * 2).wait()
late()
collect_all([reduced(), reduced()]).wait()
late()
wait_all([reduced()])
late()
reduced()
"""
)
CROSSED = (
    scripts.START
    + """
one, other = dist.new_group([0, 1]), dist.new_group([0, 1])
for group in (one, other) if rank == 0 else (other, one):
    dist.all_reduce(torch.ones(8), group=group, async_op=True).get_future().wait()
"""
)


@pytest.mark.parametrize("backend", ["gloo", "steptime"])
def test_who_waits_for_a_future_waits_for_its_calls(tmp_path: Path, backend: str) -> None:
    done = record(tmp_path, WAITS, environ={"BACKEND": backend})
    assert done.code == 0, done.err
    (early,) = (log for log in read_logs(tmp_path / "run") if log.rank == 0)
    calls = early.calls[early.calls["bytes"] == 8 * 4]
    assert len(calls) == 6
    waited = (calls["wait_end"] - calls["wait_begin"]) / 1e9
    assert (waited[:5] > 0.8 * LATE_S).all()  # the second wait for one is none for its call
    assert waited[5] == 0
    assert (calls["ended"][:5] <= calls["wait_end"][:5]).all()


def test_ranks_that_wait_for_futures_in_different_orders_stand_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(CROSSED)
    done = forked("check", "--ranks", "2", "--json", "script.py", folder=tmp_path)
    (finding,) = json.loads(done.out.splitlines()[-1])["findings"]
    assert (finding["kind"], finding["ranks"]) == ("deadlock", [0, 1])
