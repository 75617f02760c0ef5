"""Judges on jobs made by hand: what takes long to happen, or happens on one backend alone."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from steptime.check.finding import FindingKind
from steptime.check.job import Job
from steptime.check.judging import judged
from steptime.record.read import Observation, ProcessLog, Raised, Signature, Site, helpers_in

sys.path.insert(0, str(Path(__file__).parents[1] / "record"))
from log_made import US, Made, world

SECOND = 1_000_000 * US


TAGS = {"float32": 7, "int32": 8}


def _message(rank: int, name: str, dtypes: list[str], *, tagged: bool = False) -> ProcessLog:
    made = Made(rank, 2)
    for number, _ in enumerate(dtypes, start=1):
        made.call(
            name, 16, issued=10 * number, ended=10 * number + 5, peer=1 - rank, signature=number
        )
    signatures = {
        at: Signature(one, ((4,),), True, tag=TAGS[one] if tagged else 0)
        for at, one in enumerate(dtypes, start=1)
    }
    groups = {1: replace(world(2), backend="nccl")}
    return replace(made.log(), signatures=signatures, groups=groups)


def test_messages_of_other_dtypes_differ_and_so_do_those_in_another_order_but_for_their_tags() -> (
    None
):
    sent = _message(0, "send", ["float32", "int32"])
    (found,) = judged(Job(logs=[sent, _message(1, "recv_", ["float32", "float32"])], now_ns=0))
    assert (found.kind, found.ranks) == (FindingKind.MISMATCH, [0, 1])
    assert found.what.startswith("Message 2 from rank 0 to rank 1 differs in its dtype")
    received = _message(1, "recv_", ["int32", "float32"])
    (found,) = judged(Job(logs=[sent, received], now_ns=0))
    assert found.what.startswith("Message 1 from rank 0 to rank 1 differs in its dtype")
    logs = [
        _message(0, "send", ["float32", "int32"], tagged=True),
        _message(1, "recv_", ["int32", "float32"], tagged=True),
    ]
    assert judged(Job(logs=logs, now_ns=0)) == []


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


def test_a_call_that_all_have_just_made_is_not_one_that_gets_no_further() -> None:
    ranks = [_waiting(rank, 100 + rank) for rank in (0, 1)]
    stuck = Job(logs=ranks, now_ns=12 * SECOND, unmoved=frozenset({0, 1}))
    (found,) = judged(stuck, running=True)
    assert (found.kind, found.ranks) == (FindingKind.DEADLOCK, [0, 1])
    assert "nothing has been sent since" in found.what
    # Both have called since they were looked at, as where one had imported for long.
    assert judged(replace(stuck, now_ns=SECOND // 10), running=True) == []


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


def _joining(rank: int, joins_as: int) -> ProcessLog:
    facts = {"number": 1, "kind": "init_process_group", "ranks": [0, 1], "world": 2}
    facts |= {"started": 2, "at": 1, "at_ns": 0, "joins_as": joins_as, "launched_as": rank}
    return replace(_running(rank, 100 + rank), observed=(Observation("setup", facts),))


def test_processes_that_join_as_one_rank_are_told() -> None:
    job = Job(logs=[_joining(0, 0), _joining(1, 0)], now_ns=2 * SECOND)
    (found,) = judged(job, running=True)
    assert (found.kind, found.ranks) == (FindingKind.MISMATCH, [0, 1])
    assert "started as ranks 0 and 1 join in init_process_group as rank 0" in found.what
    apart = Job(logs=[_joining(0, 0), _joining(1, 1)], now_ns=2 * SECOND)
    assert judged(apart, running=True) == []


def _with_file(rank: int, *notes: tuple[str, dict[str, object]]) -> ProcessLog:
    observed = tuple(Observation(what, {"at": 1, **facts}) for what, facts in notes)
    return replace(_running(rank, 100 + rank), ended=True, observed=observed)


def _looks_for(path: str) -> ProcessLog:
    message = f"[Errno 2] No such file or directory: '{path}'"
    raised = Raised("FileNotFoundError", message, 5 * SECOND, Site("script.py", 9, "main"))
    return replace(_with_file(1), raised=raised)


@pytest.mark.parametrize(
    ("notes", "told"),
    [
        ([("removed", {"path": "/data/run", "at_ns": 4 * SECOND})], "which rank 0 has removed"),
        (
            [("saving", {"path": "/data/run/model.pt", "at_ns": 6 * SECOND})],
            "which rank 0 only then saves",
        ),
        ([("removed", {"path": "/data/run", "at_ns": 6 * SECOND})], ""),
        ([("saving", {"path": "/data/run/model.pt", "at_ns": SECOND})], ""),
        ([("saving", {"path": "/data/run/other.pt", "at_ns": 6 * SECOND})], ""),
    ],
)
def test_a_file_that_is_gone_or_not_there_yet_is_told_with_who_has_it_in_hand(
    notes: list[tuple[str, dict[str, object]]], told: str
) -> None:
    job = Job(logs=[_with_file(0, *notes), _looks_for("/data/run/model.pt")], now_ns=9 * SECOND)
    races = [one for one in judged(job) if one.kind is FindingKind.RACE]
    assert [one.ranks for one in races] == ([[1]] if told else [])
    assert all(told in one.what for one in races)


def _replicated(rank: int, *samples: list[float], shape: tuple[int, ...] = (2,)) -> ProcessLog:
    return _with_file(
        rank,
        *(
            ("replicated", {"ranks": [0, 1], "number": n, "shape": list(shape), "samples": one})
            for n, one in enumerate(samples, start=1)
        ),
    )


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (_replicated(1, [1.0, 2.0], [3.0, 4.1]), False),  # rounding
        (_replicated(1, [1.0, 2.0], [3.0, 5.0]), True),
        (_replicated(1, [9.0, 2.0]), True),
        (_replicated(1, [9.0, 2.0], shape=(1, 2)), False),  # another call
    ],
)
def test_tensors_that_are_said_to_be_replicated_are_compared(other: ProcessLog, told: bool) -> None:
    mine = _replicated(0, [1.0, 2.0], [3.0, 4.0])
    found = judged(Job(logs=[mine, other], now_ns=9 * SECOND))
    assert [one.ranks for one in found] == ([[0, 1]] if told else [])


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from steptime.check.job import Job
from steptime.check.judging import judged
assert judged(Job(logs=[], now_ns=0)) == []
"""


def test_a_finished_job_is_judged_without_torch() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH], check=True, timeout=600)


def _at(*frames: str) -> str:
    """The stack of a rank whose script is at line 7; the innermost frame first."""
    lines = [f'  File "/usr/lib/site-packages/{one}' for one in frames]
    script = '  File "/home/me/train.py", line 7 in <module>'
    return "\n".join(["Thread 0x1 (most recent call first):", *lines, script])


_BUILDS = _at('torch/utils/cpp_extension.py", line 2100 in _jit_compile')
_WAITS = _at(
    'torch/utils/file_baton.py", line 48 in wait',
    'torch/utils/cpp_extension.py", line 2100 in _jit_compile',
)
_LOADS = _at('torch/utils/data/dataloader.py", line 1310 in _try_get_data')


@pytest.mark.parametrize(
    ("of_rank_0", "of_rank_1", "now_s", "resting", "told"),
    [
        pytest.param(_WAITS, _WAITS, 6, [], "the lock of a file at train.py:7, for 6 s", id="lock"),
        pytest.param(_WAITS, _WAITS, 3, [], "", id="a lock, not for long"),
        pytest.param(_BUILDS, _WAITS, 6, [], "", id="a rank has the lock"),
        pytest.param(_at(), _LOADS, 21, [0, 1], "0 at train.py:7, rank 1 at", id="nothing"),
        pytest.param(_LOADS, _LOADS, 21, [0, 1], "workers of a DataLoader", id="workers"),
        pytest.param(_at(), _at(), 19, [0, 1], "", id="nothing, not for long"),
        pytest.param(_at(), _at(), 21, [0], "", id="a rank computes, or what it started"),
        pytest.param(_at(), "", 21, [0, 1], "", id="a rank that does not say where it is"),
    ],
)
def test_ranks_that_all_do_nothing_are_told(
    of_rank_0: str, of_rank_1: str, now_s: int, resting: list[int], told: str
) -> None:
    job = Job(
        logs=[_running(rank, 100 + rank) for rank in (0, 1)],
        now_ns=now_s * SECOND,
        stacks={0: of_rank_0, 1: of_rank_1},
        resting=frozenset(resting),
    )
    found = judged(job, running=True)
    assert len(found) == bool(told)
    for one in found:
        assert (one.kind, one.ranks) == (FindingKind.STRAGGLER, [0, 1])
        assert told in one.what
