"""Tensors of more than 2 GiB, whose sizes no 32-bit number holds."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from gigabytes import gigabytes
from ranks import on_ranks

GIB2 = 1 << 31


@pytest.mark.slow
def test_collectives_beyond_2_gib(tmp_path: Path) -> None:
    with gigabytes(12):
        answers = on_ranks(2, _beyond_2_gib, tmp_path, backend="steptime")
    for found in answers:
        assert found == {
            "all_reduce of uint8": [3],
            "all_reduce of bfloat16": [3.0],
            "broadcast": [2],
            "all_gather_single": [1, 2],
            "message": [1],
        }


def _beyond_2_gib() -> dict[str, list[Any]]:
    rank = dist.get_rank()
    found: dict[str, list[Any]] = {}

    def holds(name: str, tensor: torch.Tensor) -> None:
        """All that there is, at most one value in each part that came from one rank.

        Compared as words of 8 bytes, for which no memory is taken.
        """
        least, most = tensor.view(torch.int64).aminmax(dim=1)
        alike = (least == most) & (tensor[:, :8] == tensor[:, :1]).all(1)
        found[name] = tensor[alike, 0].tolist()

    vector = torch.full((GIB2 + 8,), 1 + rank, dtype=torch.uint8)
    dist.all_reduce(vector)
    holds("all_reduce of uint8", vector[None])
    dist.broadcast(vector.fill_(1 + rank), 1)
    holds("broadcast", vector[None])
    if rank == 0:
        dist.send(vector.fill_(1), 1)
    else:
        dist.recv(vector, 0)
    holds("message", vector[None])
    del vector
    halves = torch.full((GIB2 // 2 + 4,), 1 + rank, dtype=torch.bfloat16)
    dist.all_reduce(halves)
    holds("all_reduce of bfloat16", halves[None])
    del halves
    gathered = torch.zeros(2, GIB2 // 2 + 8, dtype=torch.uint8)
    dist.all_gather_single(gathered, torch.full_like(gathered[0], 1 + rank))
    holds("all_gather_single", gathered)
    return found
