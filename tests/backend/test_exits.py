"""Ranks that end, stop or are killed, and what those are told that wait for them."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from backend.test_errors import SHORT_S, _sentence
from ranks import FORKED, on_ranks

_TINY_SHM = (
    *("unshare", "--mount", "sh", "-c"),
    'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"',
    "sh",
)
_FORKS = ("-W", "ignore:This process")  # Python from 3.12 on warns who has threads and forks
_PERMITTED = subprocess.run([*_TINY_SHM, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "prefix",
    [
        (),
        pytest.param(
            _TINY_SHM,
            marks=pytest.mark.skipif(not _PERMITTED, reason="no mount is permitted here"),
        ),
    ],
    ids=["as it is", "with 64 KiB of /dev/shm"],
)
def test_a_script_that_leaves_nothing_in_order_ends_well(
    prefix: tuple[str, ...], tmp_path: Path
) -> None:
    script = str(Path(__file__).with_name("leaving.py"))
    ranks = [
        subprocess.Popen(
            [*prefix, sys.executable, *_FORKS, script, str(tmp_path / "store"), str(rank)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        ended = [process.communicate(timeout=600) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    assert [err for _, err in ended] == ["", ""]
    assert [process.returncode for process in ranks] == [0, 0]
    for process, (out, _) in zip(ranks, ended, strict=True):
        reduced, forked, *_ = out.splitlines()
        assert reduced == "32.0"
        assert f"was forked from a rank (pid {process.pid})" in forked
    assert "left the group in barrier" in ended[0][0].splitlines()[-1]


@pytest.mark.slow
def test_ranks_that_are_killed_or_stopped_are_named_in_whatever_waits_for_them(
    tmp_path: Path,
) -> None:
    queue = FORKED.Queue()
    ranks = [
        FORKED.Process(target=_waiting, args=(rank, tmp_path / "store", queue)) for rank in range(4)
    ]
    for process in ranks:
        process.start()
    try:
        told = [queue.get(timeout=600) for _ in range(2)]
    finally:
        for process in ranks:
            process.kill()
            process.join()
    for found in told:
        assert found["killed"].keys() == found["stopped"].keys()
        for where, (sentence, seconds) in found["killed"].items():
            assert "rank 3 (pid" in sentence, where
            assert "died" in sentence, where
            assert where in sentence, where
            assert seconds < 300, where  # not the half hour of a group's timeout
        for where, (sentence, seconds) in found["stopped"].items():
            assert f"timeout of {SHORT_S:g} s" in sentence, where
            assert "rank 2 (pid" in sentence, where
            assert where in sentence, where
            assert seconds < 300, where


def _waiting(rank: int, store: Path, queue: Any) -> None:
    import steptime.backend  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("steptime", f"file://{store}", rank=rank, world_size=4)
    killed = [dist.new_group([0, 1, 3]) for _ in range(4)]
    stopped = [dist.new_group([0, 1, 2], timeout=timedelta(seconds=SHORT_S)) for _ in range(4)]
    dist.barrier()
    if rank >= 2:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL if rank == 3 else signal.SIGSTOP)
    found = {"killed": _told(killed, 3), "stopped": _told(stopped, 2)}
    queue.put(found)
    queue.close()
    queue.join_thread()
    time.sleep(600)  # until the other rank has been told as well


def _told(groups: list[Any], missing: int) -> dict[str, tuple[str, float]]:
    """What is raised in each call that is under way in a group of its own, and when."""
    begun = time.monotonic()
    works = {
        "all_reduce": dist.all_reduce(torch.ones(100_000), group=groups[0], async_op=True),
        "barrier": dist.barrier(groups[1], async_op=True),
        "broadcast": dist.broadcast(torch.ones(3), missing, groups[2], async_op=True),
        "recv": dist.irecv(torch.ones(3), missing, groups[3]),
    }
    return {name: (_sentence(work.wait), time.monotonic() - begun) for name, work in works.items()}


def test_disagreements_in_a_subgroup_say_who_called_what(tmp_path: Path) -> None:
    _, *told = on_ranks(3, _disagreements, tmp_path, backend="steptime")
    assert told[0] == told[1]
    what = "the ranks disagree in call number 1: rank 1 called {}; rank 2 called {}"
    assert told[0] == {
        "shape": what.format("all_reduce of float32[4] (sum)", "all_reduce of float32[5] (sum)"),
        "dtype": what.format("all_gather of float32[4]", "all_gather of int32[4]"),
        "reduction": what.format(
            "all_reduce of float32[4] (sum)", "all_reduce of float32[4] (max)"
        ),
        "root": what.format(
            "broadcast of float32[4] from rank 1", "broadcast of float32[4] from rank 2"
        ),
        "collective": what.format("barrier", "reduce of float32[4] to rank 2 (sum)"),
    }


def _disagreements() -> dict[str, str]:
    groups = [dist.new_group([1, 2]) for _ in range(5)]
    if dist.get_rank() == 0:
        return {}
    second = dist.get_rank() == 2
    tensor = torch.ones(4, dtype=torch.int32 if second else torch.float32)
    floats = torch.ones(4)
    calls = {
        "shape": lambda g: dist.all_reduce(torch.ones(4 + second), group=g),
        "dtype": lambda g: dist.all_gather([tensor.clone() for _ in range(2)], tensor, g),
        "reduction": lambda g: dist.all_reduce(
            floats, dist.ReduceOp.MAX if second else dist.ReduceOp.SUM, g, async_op=True
        ).wait(),
        "root": lambda g: dist.broadcast(floats, 1 + second, g, async_op=True).wait(),
        "collective": lambda g: dist.reduce(floats, 2, group=g) if second else dist.barrier(g),
    }
    return {
        name: _sentence(lambda call=call, group=group: call(group))
        for (name, call), group in zip(calls.items(), groups, strict=True)
    }


@pytest.mark.slow
def test_ranks_that_wait_for_each_other_are_told_of_the_deadlock(tmp_path: Path) -> None:
    recv = "rank {0} waits for rank {1} in recv of float32[3] from rank {1}, tag 0"
    send = "rank {0} waits for rank {1} in send of float32[1000000] to rank {1}, tag 0"
    barrier = "rank {0} waits for rank {1} in barrier, call number 1"
    circles = {
        "pair": [recv.format(0, 1), recv.format(1, 0)],
        "sends": [send.format(0, 1), send.format(1, 0)],
        "three": [recv.format(0, 1), recv.format(1, 2), recv.format(2, 0)],
        "groups": [barrier.format(0, 1), recv.format(1, 2), barrier.format(2, 0)],
    }

    def told(name: str) -> list[str]:
        folder = tmp_path / name
        folder.mkdir()
        ranks = 2 if name in ("pair", "sends") else 3
        return on_ranks(ranks, _waiting_in_a_circle, folder, name, backend="steptime")

    with ThreadPoolExecutor(len(circles)) as threads:  # they wait out the timeout together
        found = dict(zip(circles, threads.map(told, circles), strict=True))
    for name, circle in circles.items():
        sentence = f"deadlock, at the timeout of {SHORT_S:g} s: {'; '.join(circle)}"
        assert set(found[name]) == {sentence}, name


def _waiting_in_a_circle(name: str) -> str:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    neighbour, small, large = (rank + 1) % ranks, torch.ones(3), torch.ones(1_000_000)

    def group(*members: int) -> Any:
        return dist.new_group(members, timeout=timedelta(seconds=SHORT_S))

    if name == "groups":
        first, second, third = group(0, 1), group(1, 2), group(0, 2)
        call = (
            lambda: dist.barrier(first),
            lambda: dist.recv(small, 2, second),
            lambda: dist.barrier(third),
        )[rank]
    else:
        what = (dist.send, large) if name == "sends" else (dist.recv, small)
        call = partial(*what, neighbour, group(*range(ranks)))
    dist.barrier()
    found = _sentence(call)
    # Who goes on to wait for a rank that has not been told yet would be in a circle with it anew.
    store = dist.distributed_c10d._get_default_store()
    store.set(f"told {rank}", "")
    store.wait([f"told {one}" for one in range(ranks)])
    return found


@pytest.mark.slow
def test_a_receive_that_nobody_waits_for_makes_no_deadlock(tmp_path: Path) -> None:
    first, second = on_ranks(2, _receiving_meanwhile, tmp_path, backend="steptime")
    assert f"rank 0 reached the timeout of {SHORT_S:g} s waiting for rank 1 (pid" in first
    assert first == second


def _receiving_meanwhile() -> str:
    """Rank 0 waits for a message of rank 1, which does something else, with a receive under way."""
    group: Any = dist.new_group(timeout=timedelta(seconds=SHORT_S))
    later: Any = dist.new_group()
    dist.barrier()
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        found = _sentence(lambda: dist.recv(torch.ones(3), 1, group))
        store.set("told", "")
        return found
    work = dist.irecv(torch.ones(3), 0, later)
    store.wait(["told"])
    found = _sentence(lambda: dist.recv(torch.ones(3), 0, group))
    assert not work.is_completed()
    return found
