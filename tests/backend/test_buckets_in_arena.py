"""The buckets of DDP, and what a group allocates, lie in the arena where they are told to."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from ranks import on_ranks
from steptime.backend import data_parallel
from steptime.backend.host.arena import arena


@pytest.mark.parametrize(
    "options", [{}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}]
)
def test_buckets_lie_in_the_arena_in_every_step(options: dict[str, bool], tmp_path: Path) -> None:
    for rank in on_ranks(2, _where_buckets_lie, tmp_path, options, backend="steptime"):
        assert len(rank) == 3, "three steps"
        assert all(step and all(step) for step in rank), rank


def test_a_group_makes_tensors_in_the_arena(tmp_path: Path) -> None:
    assert on_ranks(2, _made_by_group, tmp_path, backend="steptime") == [[True, True, 10]] * 2


def _where_buckets_lie(options: dict[str, bool]) -> list[list[bool]]:
    """Of each step, of each bucket: whether it is in the arena."""
    steps: list[list[bool]] = []

    def noted(_: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        steps[-1].append(arena().offset(bucket.buffer().data_ptr()) is not None)
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(_first)

    model = data_parallel(
        nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(4))),
        bucket_cap_mb=0.02,
        **options,
    )
    model.register_comm_hook(None, noted)
    for _ in range(3):
        steps.append([])
        model(torch.ones(2, 64)).sum().backward()
    return steps


def _first(done: Any) -> torch.Tensor:
    tensors: list[torch.Tensor] = done.value()
    return tensors[0]


def _made_by_group() -> list[Any]:
    cpu = torch.device("cpu")
    group: Any = dist.group.WORLD
    made = group.allocate_tensor(10, dtype=torch.float32, device=cpu)
    inside = arena().offset(made.data_ptr()) is not None
    dist.all_reduce(made.fill_(1))
    return [group.supports_tensor_alloc(cpu), inside, int(made.sum()) // 2]
