"""What every rank is told when one calls something else, dies, fails, leaves or does not come."""

import os
import signal
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

from backend.host.group import DIED, in_group
from steptime.backend import reduction
from steptime.backend.host import Call, HostGroup, Kind
from steptime.errors import SteptimeError
from steptime.world import LostContactError

_BARRIER = Call.of(Kind.BARRIER)


def _all_reduce(group: HostGroup, elements: int, op: reduction.Reduction = reduction.SUM) -> None:
    call = Call.of(Kind.ALL_REDUCE, torch.float32, elements, -1, op.name)
    group.all_reduce(call, torch.ones(elements), op)


def _told(group: HostGroup, error: SteptimeError) -> tuple[str, str]:
    """The kind and the sentence of an error, which every later call raises as well."""
    for again in (lambda: group.barrier(_BARRIER), lambda: _all_reduce(group, 5)):
        begun = time.monotonic()
        with pytest.raises(type(error)) as raised:
            again()
        assert str(raised.value) == str(error)
        assert time.monotonic() - begun < 60  # at once, not at the timeout
    return type(error).__name__, str(error)


def _disagreeing(group: HostGroup) -> tuple[str, str]:
    for _ in range(16):
        group.barrier(_BARRIER)
    with pytest.raises(SteptimeError) as raised:
        if group.rank == 1:
            call = Call.of(Kind.BROADCAST, torch.float32, 4, 0)
            group.broadcast(call, torch.ones(4), 0)
        else:
            _all_reduce(group, 10**6)
    return _told(group, raised.value)


def test_ranks_that_call_different_things_all_say_who_called_what(tmp_path: Path) -> None:
    sentence = (
        "the ranks disagree in call number 17: "
        "ranks 0, 2 called all_reduce of float32[1000000] (sum); "
        "rank 1 called broadcast of float32[4] from rank 0"
    )
    assert in_group(3, _disagreeing, tmp_path) == [("SteptimeError", sentence)] * 3


def _unequal(group: HostGroup) -> tuple[str, str]:
    expected = [torch.zeros(3) for _ in range(2)]
    given = [torch.zeros(3 + (group.rank == 1 and to == 0)) for to in range(2)]
    with pytest.raises(SteptimeError) as raised:
        group.all_to_all(Call.of(Kind.ALL_TO_ALL, torch.float32), expected, given)
    return _told(group, raised.value)


def test_sizes_that_do_not_fit_each_other_are_told_to_all(tmp_path: Path) -> None:
    sentence = (
        "in all_to_all of float32, call number 1 rank 1 sends 4 elements to rank 0, which expects 3"
    )
    assert in_group(2, _unequal, tmp_path) == [("SteptimeError", sentence)] * 2


def _dying(group: HostGroup, elements: int) -> tuple[str, int, float]:
    def die(a: Tensor, b: Tensor) -> Tensor:
        if group.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return a + b

    group.barrier(_BARRIER)
    begun = time.monotonic()
    with pytest.raises(LostContactError) as raised:
        _all_reduce(group, elements, reduction.custom("die", die))
        group.barrier(_BARRIER)
    _told(group, raised.value)
    return str(raised.value), os.getpid(), time.monotonic() - begun


@pytest.mark.parametrize("elements", [1, pytest.param(10**6, marks=pytest.mark.slow)])
def test_a_rank_that_is_killed_is_named_by_all_others(elements: int, tmp_path: Path) -> None:
    results = in_group(4, _dying, tmp_path, elements)
    assert results[2] == DIED
    others = [result for result in results if result != DIED]
    assert len(others) == 3
    for sentence, pid, seconds in others:
        assert sentence.startswith("rank 2 (pid ")
        assert f"(pid {pid})" not in sentence
        assert " died in " in sentence
        assert "call number" in sentence
        assert seconds < 60  # and not the timeout's 300


def _absent(group: HostGroup, folder: Path) -> tuple[str, str] | None:
    told = [folder / "told 0", folder / "told 2"]
    group.barrier(_BARRIER)
    if group.rank == 1:
        while not all(file.exists() for file in told):
            time.sleep(0.05)
        return None
    with pytest.raises(LostContactError) as raised:
        _all_reduce(group, 100)
    found = _told(group, raised.value)
    told[group.rank // 2].touch()
    return found


def test_a_rank_that_does_not_come_in_time_is_named_with_what_it_did_last(tmp_path: Path) -> None:
    first, _, third = in_group(3, _absent, tmp_path, tmp_path, timeout_s=8.0)
    assert first[0] == "LostContactError"
    for _, sentence in (first, third):
        assert sentence.startswith(
            "all_reduce of float32[100] (sum), call number 2, reached the timeout of 8 s: rank 1 "
        )
        assert sentence.endswith("did not join; the last that it called is barrier, call number 1")


def _failing(group: HostGroup) -> str:
    def fail(a: Tensor, b: Tensor) -> Tensor:
        if group.rank == 0:
            raise ValueError("no such luck")
        return a + b

    with pytest.raises((ValueError, LostContactError)) as raised:
        _all_reduce(group, 10, reduction.custom("fail", fail))
        group.barrier(_BARRIER)
    assert (raised.type is ValueError) == (group.rank == 0)
    with pytest.raises(LostContactError) as again:
        group.barrier(_BARRIER)
    return str(again.value)


def test_an_error_in_one_rank_reaches_all(tmp_path: Path) -> None:
    first, *others = in_group(3, _failing, tmp_path)
    assert others == [first] * 2
    assert first.startswith("rank 0 (pid ")
    assert "failed in all_reduce of float32[10] (fail), call number 1" in first
    assert first.endswith("ValueError: no such luck")


def _leaving(group: HostGroup) -> str | None:
    group.barrier(_BARRIER)
    if group.rank == 1:
        return None  # and leaves the group
    with pytest.raises(LostContactError) as raised:
        group.barrier(_BARRIER)
    return str(raised.value)


def test_a_rank_that_left_is_not_waited_for(tmp_path: Path) -> None:
    sentence, _ = in_group(2, _leaving, tmp_path)
    assert sentence.endswith("left the group in barrier, call number 2")


def _blocking(group: HostGroup) -> float:
    """The processor time that waiting a second for another rank takes, each for each."""
    group.barrier(_BARRIER)
    begun = time.process_time()
    for late in range(2):
        if group.rank == late:
            time.sleep(1)
        group.barrier(_BARRIER)
    return time.process_time() - begun


def test_waiting_takes_no_processor(tmp_path: Path) -> None:
    assert max(in_group(2, _blocking, tmp_path)) < 0.2
