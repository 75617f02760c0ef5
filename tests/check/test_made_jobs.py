"""Judges on jobs made by hand: what takes long to happen, or happens on one backend alone."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from steptime.check.finding import FindingKind
from steptime.check.job import Job
from steptime.check.judging import judged
from steptime.record.read import Observation, ProcessLog, Signature, helpers_in

sys.path.insert(0, str(Path(__file__).parents[1] / "record"))
from log_made import US, Made, world

SECOND = 1_000_000 * US


def _message(rank: int, name: str, dtypes: list[str]) -> ProcessLog:
    made = Made(rank, 2)
    for number, _ in enumerate(dtypes, start=1):
        made.call(
            name, 16, issued=10 * number, ended=10 * number + 5, peer=1 - rank, signature=number
        )
    signatures = {at: Signature(one, ((4,),), True) for at, one in enumerate(dtypes, start=1)}
    return replace(made.log(), signatures=signatures)


def test_messages_of_other_dtypes_differ_and_those_in_another_order_do_not() -> None:
    sent = _message(0, "send", ["float32", "int32"])
    (found,) = judged(Job(logs=[sent, _message(1, "recv_", ["float32", "float32"])], now_ns=0))
    assert (found.kind, found.ranks) == (FindingKind.MISMATCH, [0, 1])
    assert found.what.startswith("Message 2 from rank 0 to rank 1 differs in its dtype")
    received = _message(1, "recv_", ["int32", "float32"])
    assert judged(Job(logs=[sent, received], now_ns=0)) == []


def _running(rank: int, pid: int) -> ProcessLog:
    made = Made(rank, 2)
    made.call("barrier", 0, issued=1, ended=2)
    return replace(made.log(), pid=pid, ended=False)


def _waiting(rank: int, pid: int, forked_from: int | None = None) -> ProcessLog:
    made = Made(rank, 2)
    made.call("allreduce_", 4, issued=10, ended=0, flags=0, returned=11, wait_begin=11)
    return replace(made.log(), pid=pid, forked_from=forked_from, ended=False)


def test_a_worker_that_waits_in_a_call_of_its_ranks_group_is_told_and_is_no_rank() -> None:
    ranks = [_running(rank, 100 + rank) for rank in (0, 1)]
    worker = _waiting(1, 200, forked_from=101)
    of_another = replace(
        _waiting(1, 300, forked_from=101), groups={1: replace(world(2), ranks=(0,))}
    )
    assert helpers_in([*ranks, worker, of_another]) == [worker]
    job = Job(logs=ranks, now_ns=4 * SECOND, helpers=[worker])
    (found,) = judged(job, running=True)
    assert (found.kind, found.ranks) == (FindingKind.DEADLOCK, [1])
    assert "waits in all_reduce of 1 float32 at script.py:7" in found.what
    sooner = Job(logs=ranks, now_ns=SECOND, helpers=[worker])
    assert judged(sooner, running=True) == []


def test_a_world_larger_than_what_was_started_is_told_after_a_while() -> None:
    facts = {"number": 1, "kind": "init_process_group", "ranks": [0, 1, 2], "world": 3}
    facts |= {"started": 2, "at": 1, "at_ns": 0}
    log = replace(
        _running(0, 100),
        ended=False,
        observed=(Observation("setup", facts),),
    )
    (found,) = judged(Job(logs=[log], now_ns=61 * SECOND), running=True)
    assert (found.kind, found.ranks) == (FindingKind.MISSING, [2])
    assert "for 3 ranks, and 2 were started" in found.what
    assert judged(Job(logs=[log], now_ns=30 * SECOND), running=True) == []
    joined = replace(
        log, observed=(*log.observed, Observation("set up", {"number": 1, "at_ns": 1}))
    )
    assert judged(Job(logs=[joined], now_ns=61 * SECOND), running=True) == []


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from steptime.check.job import Job
from steptime.check.judging import judged
assert judged(Job(logs=[], now_ns=0)) == []
"""


def test_a_finished_job_is_judged_without_torch() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH], check=True, timeout=600)
