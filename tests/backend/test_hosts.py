"""Ranks on several hosts: here in process namespaces, which do not reach each other's memory."""

import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from backend.parity import CASES, Place
from backend.test_errors import SHORT_S, _sentence
from backend.test_parity import _attempt, _differs

_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
HOSTS = ((0, 2), (1, 3))
LONG = 8 << 20
"""Elements of a message that no socket holds."""

GROUPS = {
    "two hosts of two": ((0, 1, 2, 3), "TwoLevelGroup"),
    "a host of two and one of one": ((0, 1, 2), "TwoLevelGroup"),
    "two hosts of one": ((0, 1), "NetworkGroup"),
    "one host": ((1, 3), "HostGroup"),
}

pytestmark = pytest.mark.skipif(
    subprocess.run([*_NAMESPACE, "true"], capture_output=True, check=False).returncode != 0,
    reason="making a process namespace is not permitted here",
)


def _on_hosts(folder: Path, work: Callable[..., None]) -> dict[int, Any]:
    """What each rank writes of some work."""
    script = Path(__file__).with_name("host_of_ranks.py")
    arguments = [sys.executable, str(script), work.__name__, str(folder), "4"]
    hosts = [
        subprocess.Popen([*_NAMESPACE, *arguments, *map(str, ranks)], env=os.environ)
        for ranks in HOSTS
    ]
    try:
        for host in hosts:
            host.wait(timeout=600)
    finally:
        for host in hosts:
            host.kill()
            host.wait()
    return {int(file.stem): json.loads(file.read_text()) for file in folder.glob("*.json")}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Any]:
    return _on_hosts(tmp_path_factory.mktemp("hosts"), calls)


@pytest.fixture(scope="module")
def long_waits(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Any]:
    return _on_hosts(tmp_path_factory.mktemp("hosts"), waits)


@pytest.mark.parametrize("group", GROUPS)
def test_every_call_gives_what_its_definition_says(answers: dict[int, Any], group: str) -> None:
    members, engine = GROUPS[group]
    for rank in members:
        assert isinstance(answers[rank], dict), answers[rank]
        assert answers[rank][group] == {"engine": engine}


def test_results_have_the_same_bits_on_all_ranks(answers: dict[int, Any]) -> None:
    assert len({answers[rank]["bits"] for rank in range(4)}) == 1


def test_every_rank_learns_of_a_disagreement_between_hosts_and_within(
    answers: dict[int, Any],
) -> None:
    for rank in range(4):
        between, within = answers[rank]["disagreements"]
        assert "all_reduce of float32[3]" in between
        assert "all_reduce of float32[5]" in between
        assert "disagree" in within


@pytest.mark.slow
@pytest.mark.parametrize(("place", "ranks"), [(0, 2), (1, 4)])
def test_ranks_of_several_hosts_that_receive_first_are_told_of_the_deadlock(
    long_waits: dict[int, Any], place: int, ranks: int
) -> None:
    """One at least: whoever is the last to say for whom it waited finds the whole circle."""
    circle = "; ".join(
        f"rank {r} waits for rank {(r + 1) % ranks} in recv of float32[3] from rank "
        f"{(r + 1) % ranks}, tag 0"
        for r in range(ranks)
    )
    told = [long_waits[rank]["deadlocks"][place] for rank in range(ranks)]
    assert f"deadlock, at the timeout of {SHORT_S:g} s: {circle}" in told


@pytest.mark.slow
def test_ranks_of_several_hosts_that_send_first_are_told_of_the_deadlock(
    long_waits: dict[int, Any],
) -> None:
    circle = "; ".join(
        f"rank {r} waits for rank {1 - r} in send of float32[{LONG}] to rank {1 - r}, tag 0"
        for r in range(2)
    )
    told = [long_waits[rank]["sent first"] for rank in range(2)]
    assert f"deadlock, at the timeout of {SHORT_S:g} s: {circle}" in told


@pytest.mark.slow
def test_a_receiver_that_is_late_is_no_deadlock(long_waits: dict[int, Any]) -> None:
    """The other rank reads nothing because it computes, and sends nothing."""
    for rank in range(2):
        assert "deadlock" not in long_waits[rank]["late"]
    assert "reached the timeout" in long_waits[0]["late"]


def test_a_killed_rank_is_named_on_every_host(answers: dict[int, Any]) -> None:
    assert "lost" not in answers[3]
    for rank in range(3):
        sentence, seconds = answers[rank]["lost"]
        assert "rank 3" in sentence
        assert "died" in sentence
        assert seconds < 200  # and not the timeout's 300


def waits(write: Callable[[dict[str, Any]], None]) -> None:
    """What every rank waits for in vain, each time until a timeout."""
    write({"deadlocks": deadlocks(), "sent first": send_first(), "late": late()})
    dist.barrier()  # so that nobody who has left is missed


def calls(write: Callable[[dict[str, Any]], None]) -> None:
    """What every rank calls; it writes its answers before one of them is killed."""
    answers = parity() | {"disagreements": disagreements()}
    write(answers)
    dist.barrier()
    if dist.get_rank() == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    sentence = _sentence(lambda: dist.all_reduce(torch.ones(3)))
    write(answers | {"lost": (sentence, time.monotonic() - begin)})


def parity() -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for name, (members, _) in GROUPS.items():
        group: Any = dist.new_group(members)
        if dist.get_rank() not in members:
            continue
        place = Place(group, members.index(dist.get_rank()), members)
        problems = {
            case.name: _differs("steptime", case.expected(place), _attempt(case.run, place))
            for case in CASES.values()
        }
        answers[name] = {case: problem for case, problem in problems.items() if problem}
        answers[name]["engine"] = type(group._engine).__name__
    torch.manual_seed(dist.get_rank())
    noise = torch.randn(100_000)
    dist.all_reduce(noise)
    answers["bits"] = zlib.crc32(noise.numpy().tobytes())
    return answers


def disagreements() -> list[str]:
    """Between the hosts: each host calls one thing. Within: a single rank calls another."""
    rank = dist.get_rank()
    between, within = dist.new_group(), dist.new_group()
    found = [
        _sentence(lambda: dist.all_reduce(torch.ones(3 + 2 * (rank % 2)), group=between)),
        _sentence(lambda: dist.all_reduce(torch.ones(3 + 2 * (rank == 3)), group=within)),
    ]
    time.sleep(1)  # so that nobody leaves while another still asks the store why it failed
    return found


def deadlocks() -> list[str]:
    """Two ranks of two hosts, and all four in a ring: each receives before it sends."""
    rank, limit = dist.get_rank(), timedelta(seconds=SHORT_S)
    found = []
    for ranks in (2, 4):
        group = dist.new_group(list(range(ranks)), timeout=limit)
        dist.barrier()
        if rank < ranks:
            landing, source = torch.empty(3), (rank + 1) % ranks
            found.append(_sentence(lambda: dist.recv(landing, source, group)))  # noqa: B023
        else:
            found.append("")
    return found


def send_first() -> str:
    """Ranks 0 and 1, of two hosts, both send more than any socket holds before they receive."""
    rank = dist.get_rank()
    group = dist.new_group([0, 1], timeout=timedelta(seconds=SHORT_S))
    dist.barrier()
    return _sentence(lambda: dist.send(torch.ones(LONG), 1 - rank, group)) if rank < 2 else ""


def late() -> str:
    """Rank 0 sends, and rank 1 comes to receive it only after the timeout."""
    rank = dist.get_rank()
    group = dist.new_group([0, 1], timeout=timedelta(seconds=SHORT_S))
    dist.barrier()
    if rank == 0:
        return _sentence(lambda: dist.send(torch.ones(LONG), 1, group))
    if rank == 1:
        time.sleep(2 * SHORT_S)
        return _sentence(lambda: dist.recv(torch.ones(LONG), 0, group))
    return ""
