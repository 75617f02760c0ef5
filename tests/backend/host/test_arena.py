"""Tensors in shared memory: where they lie, what they take, and who sees them."""

import gc
import os
from pathlib import Path

import pytest
import torch

from backend.host.group import in_group
from steptime import host_memory as room
from steptime.backend import reduction
from steptime.backend.host import Call, HostGroup, Kind, arena, empty
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
    elements = room.total_bytes()
    with pytest.raises(SteptimeError, match=r"needs .* and this process may take only .* more"):
        empty(elements)


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


def test_a_tensor_at_the_place_of_one_before_is_seen_by_all(tmp_path: Path) -> None:
    in_group(2, _used_by_others, tmp_path)
