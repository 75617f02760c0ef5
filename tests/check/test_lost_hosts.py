"""Which host a job has lost, by what its hosts say of one another; and on emulated hosts."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "emulate"))
from test_emulated_hosts import CLUSTER, POSSIBLE

from steptime.check.calls import Call, Calls
from steptime.check.finding import FindingKind
from steptime.check.job import Job
from steptime.check.judging import judged
from steptime.check.pulse import PULSE, LostHost, Pulse, View, lost_hosts
from steptime.record.events import EVENT
from steptime.record.read import ProcessLog, Signature, Site

HEARD, SILENT = 1, 40  # beats


def views(silent: Mapping[str, Mapping[str, int]], **unlinked: bool) -> list[View]:
    return [
        View(host=host, silent=of, linked=host not in unlinked, written_s=100.0)
        for host, of in silent.items()
    ]


def test_nobody_is_lost_while_all_are_heard_directly_or_by_others() -> None:
    near = {"a": {"b": HEARD}, "b": {"a": HEARD, "c": HEARD}, "c": {"b": HEARD}}
    assert lost_hosts(views(near), "a") == []
    # The way between a and c is broken, and b hears both.
    far = {"a": {"b": 0, "c": SILENT}, "b": {"a": 0, "c": 0}, "c": {"b": 0, "a": SILENT}}
    assert lost_hosts(views(far), "a") == []


@pytest.mark.parametrize("gone", ["a", "b", "c"])
def test_of_three_hosts_the_one_is_lost_that_hears_nobody(gone: str) -> None:
    names = {"a", "b", "c"}
    said = {
        one: {other: SILENT if gone in (one, other) else HEARD for other in names - {one}}
        for one in sorted(names)
    }
    (found,) = lost_hosts(views(said), "a")
    assert (found.host, found.silent_s) == (gone, SILENT / 4)
    assert set(found.others) == names - {gone}


def test_what_a_host_wrote_last_stands_for_it() -> None:
    """From a host that alone can be read: the others heard each other, so this one is cut off."""
    said = {"a": {"b": SILENT, "c": SILENT}, "b": {"a": 0, "c": 0}, "c": {"a": 0, "b": 0}}
    assert lost_hosts(views(said), "a") == []  # nobody misses it yet
    said["b"] = {"a": SILENT, "c": 0}
    (found,) = lost_hosts(views(said), "a")
    assert (found.host, found.others) == ("a", ("b",))


def test_of_two_hosts_the_one_without_a_link_is_lost() -> None:
    said = {"a": {"b": SILENT}, "b": {"a": SILENT}}
    assert [one.host for one in lost_hosts(views(said), "a")] == ["b"]  # rank 0 is on a
    (found,) = lost_hosts(views(said, a=False), "a")
    assert (found.host, found.linked) == ("a", False)


def test_of_two_hosts_the_one_that_writes_no_more_is_lost() -> None:
    a, b = views({"a": {"b": HEARD}, "b": {"a": SILENT}})
    stale = View(host="a", silent=a.silent, written_s=90.0)
    assert [one.host for one in lost_hosts([stale, b], "a")] == ["a"]


def test_a_host_that_was_never_heard_is_not_missed() -> None:
    """A firewall may keep datagrams out: nothing is said of whom nobody ever heard."""
    said = {"a": {"b": HEARD}, "b": {"a": HEARD}, "c": {}}
    assert lost_hosts(views(said), "a") == []


def job(lost: Sequence[LostHost], ended_ns: int) -> Job:
    """Four ranks on hosts a and b, each 3 s in an all_reduce of all, done or not."""
    logs = [
        ProcessLog(
            host="ab"[rank // 2],
            pid=rank,
            command=(),
            rank=rank,
            world_size=4,
            threads=1,
            clock_ns=0,
            wall_ns=0,
            ended=False,
            events=np.empty(0, EVENT),
        )
        for rank in range(4)
    ]
    found = Job(logs=logs, now_ns=int(4e9), lost=lost)
    calls = {
        rank: [
            Call(
                rank=rank,
                kind="all_reduce",
                key=("world", (0, 1, 2, 3), (), 0),
                group="world",
                number=1,
                peer=-1,
                nbytes=8,
                signature=Signature("float32", ((2,),), True),
                site=Site("train.py", 7, "step"),
                issued=int(1e9),
                ended=ended_ns,
                waited=not ended_ns,
                failed=False,
            )
        ]
        for rank in range(4)
    }
    found.__dict__["calls"] = Calls(calls)
    return found


def test_a_silent_host_is_a_finding_while_calls_wait_for_its_ranks() -> None:
    gone = LostHost(host="b", silent_s=2.5, others=("a",), linked=False)
    (found,) = judged(job([gone], 0), running=True)
    assert (found.kind, found.ranks) == (FindingKind.LOST, [2, 3])
    assert found.what == (
        "The host b with ranks 2 and 3 answers no more: a heard nothing of it for 2.5 s, and its "
        "own interface has no link; ranks 0 and 1 wait for it in all_reduce of 2 float32 at "
        "train.py:7."
    )
    assert judged(job([gone], int(2e9)), running=True) == []  # nobody waits for it
    assert judged(job([], 0), running=True) == []


def test_pulses_hear_each_other_and_miss_who_falls_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(["a", "b"])
    monkeypatch.setattr("socket.gethostname", lambda: next(names))
    with Pulse(tmp_path, "127.0.0.1") as a:
        with Pulse(tmp_path, "127.0.0.1") as b:
            _until(lambda: "b" in (tmp_path / f"a{PULSE}").read_text().partition("silent")[2])
            _until(lambda: "a" in (tmp_path / f"b{PULSE}").read_text().partition("silent")[2])
            assert a.lost("a") == b.lost("a") == []
            silent = (tmp_path / f"b{PULSE}").read_bytes()
        assert a.lost("a") == []  # it left in order
        (tmp_path / f"b{PULSE}").write_bytes(silent)  # as if it had been killed
        _until(lambda: [one.host for one in a.lost("a")] == ["b"])
    assert {thread.name for thread in threading.enumerate()} & {"steptime-pulse"} == set()


def _until(told: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not told() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert told()


JOB = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
while True:
    dist.all_reduce(torch.ones(1000))  # here
    open(sys.argv[1], "w").close()
"""


@pytest.mark.slow
@pytest.mark.skipif(POSSIBLE.returncode != 0, reason="no network namespace is permitted here")
def test_a_host_whose_link_is_cut_is_named_with_its_ranks(tmp_path: Path) -> None:
    (tmp_path / "three.toml").write_text(CLUSTER)
    (tmp_path / "job.py").write_text(JOB)
    steptime = [sys.executable, "-m", "steptime"]
    cut = ["emulate", "three.toml", "--quiet", "--faults", "host1 down at 40s for 900s"]
    job = ["check", "--out", "run", "job.py", "joined"]
    with subprocess.Popen(
        [*steptime, *cut, "--", *steptime, *job],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr
        told = next((line for line in process.stderr if "answers no more" in line), "")
        joined = (tmp_path / "joined").exists()
        process.terminate()
        process.stderr.read()
    if not joined:
        pytest.skip("this machine is too busy to start six ranks within 40 s")
    assert re.search(r"host1 with ranks 2 and 3 answers no more: host0 and host2 heard", told)
    assert "ranks 0, 1, 4 and 5 wait for it in all_reduce of 1000 float32 at job.py:5" in told
