"""What thousands of calls and of groups leave behind: nothing."""

import gc
from pathlib import Path

import pytest
import torch
from torch.distributed import FileStore, PrefixStore

from backend.host.group import in_group
from gigabytes import gigabytes
from steptime.backend import reduction
from steptime.backend.host import Call, HostGroup, Kind, empty, find_hosts


def _held() -> tuple[int, int, int]:
    """Descriptors, mappings of shared memory, and kB of it that are resident."""
    gc.collect()
    maps = Path("/proc/self/maps").read_text().count("memfd:steptime")
    status = Path("/proc/self/status").read_text().splitlines()
    shared = next(int(line.split()[1]) for line in status if line.startswith("RssShmem"))
    return sum(1 for _ in Path("/proc/self/fd").iterdir()), maps, shared


def _calls(group: HostGroup, turns: int) -> None:
    for turn in range(turns):
        elements = turn % 700
        tensor = torch.ones(elements)
        call = Call.of(Kind.ALL_REDUCE, torch.float32, elements, -1, "sum")
        group.all_reduce(call, tensor, reduction.SUM)
    shared = empty(1 << 16)
    for _ in range(20):
        call = Call.of(Kind.BROADCAST, torch.float32, shared.numel(), 0)
        group.broadcast(call, shared, 0)


def _growth(group: HostGroup, folder: Path) -> list[int]:
    store = FileStore(str(folder / "groups"), group.ranks)
    before: tuple[int, int, int] = (0, 0, 0)
    for turn in range(22):
        if turn == 2:
            before = _held()
        prefixed = PrefixStore(str(turn), store)
        other = HostGroup(prefixed, find_hosts(prefixed, group.rank, group.ranks, 60.0), 60.0)
        _calls(other, 150)
        group.barrier(Call.of(Kind.BARRIER))
        other.close()
        del other
    return [after - earlier for after, earlier in zip(_held(), before, strict=True)]


@pytest.mark.slow
def test_groups_and_calls_leave_nothing(tmp_path: Path) -> None:
    for descriptors, maps, shared_kb in in_group(3, _growth, tmp_path, tmp_path):
        assert (descriptors, maps) == (0, 0)
        assert shared_kb < 64


def _beyond_2_gib(group: HostGroup) -> None:
    elements = (1 << 31) + 5
    tensor = empty(elements, dtype=torch.uint8)
    tensor.fill_(1 + group.rank)
    call = Call.of(Kind.ALL_REDUCE, torch.uint8, elements, -1, "sum")
    group.all_reduce(call, tensor, reduction.SUM)
    assert int(tensor.min()) == int(tensor.max()) == 3
    group.broadcast(Call.of(Kind.BROADCAST, torch.uint8, elements - 1, 1), tensor[1:], 1)
    del tensor
    plain = torch.full((elements,), 1 + group.rank, dtype=torch.uint8)
    group.all_reduce(call, plain, reduction.SUM)
    assert int(plain.min()) == int(plain.max()) == 3
    if group.rank == 0:
        group.send(Call.of(Kind.SEND, torch.uint8, elements, 1), plain, 1, 0)
    else:
        plain.zero_()
        group.recv(Call.of(Kind.RECV, torch.uint8, elements, 0), plain, 0, 0)
        assert int(plain.min()) == 3


@pytest.mark.slow
def test_sizes_beyond_2_gib(tmp_path: Path) -> None:
    with gigabytes(8):
        in_group(2, _beyond_2_gib, tmp_path)
