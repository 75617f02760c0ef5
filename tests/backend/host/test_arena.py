"""Tensors in shared memory: where they lie, what they take, and who sees them."""

import ctypes
import errno
import fcntl
import gc
import os
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from backend.host.group import in_group
from gigabytes import gigabytes
from ranks import on_ranks
from steptime import host_memory as room
from steptime.backend import reduction
from steptime.backend.host import Call, HostGroup, Kind, arena, empty, segment
from steptime.backend.host.arena import PAGE
from steptime.errors import SteptimeError


def _shared_kb() -> int:
    """Shared memory that this process maps, resident."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("RssShmem"))


def test_a_tensor_has_the_shape_and_dtype_asked_for() -> None:
    for tensor in (empty(3, 4), empty((3, 4)), empty(torch.Size([3, 4]))):
        assert tensor.shape == (3, 4)
        assert tensor.dtype == torch.float32
    assert empty(5, dtype=torch.bfloat16).dtype == torch.bfloat16
    assert empty().shape == ()
    assert empty(0, 3).shape == (0, 3)


def test_its_storage_is_its_own() -> None:
    # Saving or resizing a tensor concerns its storage, which must not be the whole arena.
    assert empty(3).untyped_storage().nbytes() == 12


def test_memory_is_given_back_with_the_last_view() -> None:
    gc.collect()
    before, elements = _shared_kb(), 4 << 20
    tensor = empty(elements)
    view = tensor[:3]
    del tensor
    assert _shared_kb() - before >= elements * 4 // 1024
    del view
    assert _shared_kb() - before < 100


def test_memory_is_used_again() -> None:
    tensors = [empty(PAGE) for _ in range(10)]
    addresses = {tensor.data_ptr() for tensor in tensors}
    del tensors[1::2]
    del tensors[:]
    assert {empty(PAGE).data_ptr() for _ in range(3)} <= addresses
    assert empty(10 * PAGE).data_ptr() in addresses  # the parts were joined


def test_more_than_there_is_is_refused_with_how_much_there_is() -> None:
    elements = room.available_bytes()
    with pytest.raises(SteptimeError, match=r"needs .* and this process may take only .* more"):
        empty(elements)


def test_groups_that_map_a_segment_at_once_have_the_same_mapping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attach = segment.attach

    def slowly(fd: int, size: int) -> ctypes.Array[ctypes.c_ubyte]:
        time.sleep(0.05)
        return attach(fd, size)

    tensor = empty(PAGE)
    offset = arena.arena().offset(tensor.data_ptr())
    assert offset is not None
    peer = arena.PeerArena(os.getpid(), arena.arena().fd)
    monkeypatch.setattr(segment, "attach", slowly)
    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(peer.mapping, [offset] * 4))
    ((start, _, address),) = found
    tensor.fill_(7)
    assert ctypes.c_float.from_address(address + offset - start).value == 7


def test_a_segment_is_of_one_user_and_of_one_size() -> None:
    fd = segment.create(PAGE)
    try:
        assert os.fstat(fd).st_mode & 0o777 == 0o600
        seals = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        assert fcntl.fcntl(fd, fcntl.F_GET_SEALS) == seals
        for size in (PAGE - 1, PAGE + 1):
            with pytest.raises(PermissionError):
                os.ftruncate(fd, size)
    finally:
        os.close(fd)


def test_a_kernel_that_cannot_take_pages_beforehand_is_no_lack_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answers(code: int) -> SimpleNamespace:
        return SimpleNamespace(madvise=lambda *_: ctypes.set_errno(code) or -1)

    monkeypatch.setattr(segment, "_libc", answers(errno.EINVAL))
    segment.populate(0, PAGE)
    monkeypatch.setattr(segment, "_libc", answers(errno.ENOMEM))
    with pytest.raises(SteptimeError, match="cannot be had"):
        segment.populate(0, PAGE)


def test_a_tensor_of_a_process_that_has_ended_is_told_as_such() -> None:
    tensor = empty(10)
    offset = arena.arena().offset(tensor.data_ptr())
    assert offset is not None
    peer = arena.PeerArena(1 << 30, arena.arena().fd)  # there are no ids so high
    with pytest.raises(SteptimeError, match="process 1073741824 cannot be opened"):
        peer.view(offset, 40)


def test_a_forked_process_neither_frees_nor_shares_the_arena() -> None:
    tensor = empty(PAGE)
    tensor.fill_(7)
    arena_here = arena.arena()
    child = os.fork()
    if not child:
        del tensor
        gc.collect()
        os._exit(arena.arena() is arena_here)
    assert os.waitpid(child, 0)[1] == 0
    assert tensor.sum() == 7 * PAGE


def _used_by_others(group: HostGroup) -> None:
    """Tensors come and go at the same place; the others must see the one that is there."""
    elements = 1 << 17
    call = Call.of(Kind.ALL_REDUCE, torch.int64, elements, -1, "sum")
    for turn in range(5):
        tensor = empty(elements, dtype=torch.int64)
        tensor.fill_(turn + group.rank)
        group.all_reduce(call, tensor, reduction.SUM)
        assert (tensor == 2 * turn + 1).all()
        del tensor


@pytest.mark.slow
def test_a_tensor_at_the_place_of_one_before_is_seen_by_all(tmp_path: Path) -> None:
    in_group(2, _used_by_others, tmp_path)


def _growing(group: HostGroup) -> int:
    """Many tensors in an arena that begins small, held at once, then freed and made again."""
    arena.LEAST_BYTES = 1 << 20  # in this process, which ends with the test
    for _ in range(2):
        tensors = [empty(elements << 15) for elements in (4, 60, 9, 5, 33, 8, 64, 7, 100, 4)]
        for number, tensor in enumerate(tensors):
            tensor.fill_(number + group.rank)
        for number, tensor in enumerate(tensors):
            call = Call.of(Kind.ALL_REDUCE, torch.float32, tensor.numel(), -1, "sum")
            group.all_reduce(call, tensor, reduction.SUM)
            assert (tensor == 2 * number + 1).all()
        del tensor, tensors
    segments = arena.arena().segments
    assert sum(s.end - s.address for s in segments) < 3 * (294 << 17)
    return len(segments)


@pytest.mark.slow
def test_an_arena_grows_by_few_segments_and_uses_them_again(tmp_path: Path) -> None:
    assert all(2 <= segments <= 7 for segments in in_group(2, _growing, tmp_path))


def _with_few_addresses() -> list[float]:
    """A group and tensors for which this process may take one GiB of addresses more."""
    import torch.distributed as dist

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * PAGE + (1 << 30),) * 2)
    group = dist.new_group(backend="steptime")
    sums = []
    for elements in (10, 1 << 18):
        tensor = empty(elements)
        tensor.fill_(1)
        dist.all_reduce(tensor, group=group)
        sums.append(tensor.sum().item() / elements)
    with pytest.raises(SteptimeError, match=r"cannot be mapped .* \(ulimit -v\)"):
        empty(1 << 29)
    return sums


@pytest.mark.slow
def test_addresses_are_taken_as_tensors_need_them(tmp_path: Path) -> None:
    with gigabytes(3):
        sums = on_ranks(2, _with_few_addresses, tmp_path)
    assert sums == [[2.0, 2.0]] * 2


def _with_small_files() -> list[str]:
    """What is refused with files of at most 32 MiB, and then of 64 KiB on rank 0."""
    import torch.distributed as dist

    import steptime.backend as backend

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    limit(32 << 20)
    group = dist.new_group(backend="steptime")
    tensor = empty(1 << 18)
    tensor.fill_(1)
    dist.all_reduce(tensor, group=group)
    assert (tensor == 2).all()
    limit(64 << 10 if dist.get_rank() == 0 else resource.RLIM_INFINITY)
    sentences = []
    for call in (
        lambda: dist.new_group(backend="steptime"),
        lambda: backend.shared(1 << 20, group=group),
    ):
        with pytest.raises(SteptimeError) as refusal:
            call()
        sentences.append(str(refusal.value))
    limit(resource.RLIM_INFINITY)
    return sentences


def test_a_limit_on_files_is_named_on_every_rank(tmp_path: Path) -> None:
    first, second = on_ranks(2, _with_small_files, tmp_path)
    assert first == second
    for sentence in first:
        assert "cannot be made (File too large)" in sentence
        assert "ulimit -f" in sentence
