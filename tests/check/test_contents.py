"""What tensors hold, as a number: the same where all bits are, wherever they lie."""

import pytest
import torch

from steptime.check.observe.contents import hash_of


@pytest.mark.parametrize("size", [1, 7, 100_000, 100_003])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_every_element_counts_and_where_it_lies_does_not(size: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    tensor = torch.randint(0, 2, (size,)).to(dtype)
    of_all = hash_of([tensor])
    elsewhere = torch.empty(size + 1, dtype=dtype)[1:].copy_(tensor)
    assert hash_of([elsewhere]) == of_all
    assert hash_of([torch.stack([tensor, tensor], 1)[:, 0]]) == of_all
    for at in {0, size // 2, size - 1}:
        changed = tensor.clone()
        changed[at] = 1 - int(changed[at])
        assert hash_of([changed]) != of_all


def test_an_exchange_of_rows_counts() -> None:
    rows = torch.arange(1 << 18, dtype=torch.float32).view(256, -1)
    assert hash_of([rows]) != hash_of([rows.flip(0)])
    assert hash_of([rows, rows.flip(0)]) != hash_of([rows.flip(0), rows])
    assert hash_of([rows], most_bytes=1024) == hash_of([rows[:1]], most_bytes=1024)
