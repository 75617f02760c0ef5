"""PREMUL_SUM: the sum of each rank's tensors times its own factor, as NCCL has it."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from ranks import on_ranks
from steptime.errors import UsageError


def _calls() -> dict[str, list[float]]:
    rank = dist.get_rank()
    op = dist._make_nccl_premul_sum(0.5 + rank)  # 0.5 and 1.5
    mine = torch.tensor([1.0, 2.0, 3.0, 4.0]) + 10 * rank
    found = {}
    whole = nn.Parameter(mine.clone())  # no part of any graph, though it asks for gradients
    dist.all_reduce(whole, op)
    found["all_reduce"] = whole.tolist()
    later = mine.clone()
    twice = [dist.all_reduce(later, op, async_op=True) for _ in range(2)]
    for work in twice:
        work.wait()
    found["twice"] = later.tolist()
    rooted = mine.clone()
    dist.reduce(rooted, 1, op)
    found["reduce"] = rooted.tolist()
    part, given = torch.empty(2), mine.clone()
    dist.reduce_scatter_single(part, given, op)
    found["part"], found["given"] = part.tolist(), given.tolist()
    dist.reduce_scatter(part, list(given.split(2)), op)
    found["list"] = part.tolist()
    uneven = torch.empty(3 if rank else 1)
    dist.reduce_scatter(uneven, list(given.split([1, 3])), op)
    found["uneven"] = uneven.tolist()
    by_tensor = mine.half()
    dist.all_reduce(by_tensor, dist._make_nccl_premul_sum(torch.tensor([0.5 + rank]).half()))
    found["half"] = by_tensor.tolist()
    with pytest.raises(UsageError, match=r"PREMUL_SUM of a .* tensor of torch.int64"):
        dist.all_reduce(torch.ones(2, dtype=torch.int64), op)
    return found


def test_every_reduction_multiplies_by_the_factor_of_each_rank(tmp_path: Path) -> None:
    zero, one = on_ranks(2, _calls, tmp_path, backend="steptime")
    total = [0.5 * n + 1.5 * (n + 10) for n in (1.0, 2.0, 3.0, 4.0)]
    for found in (zero, one):
        assert found["all_reduce"] == found["half"] == total
        assert found["twice"] == [2 * n for n in total]
    assert (zero["given"], one["given"]) == ([1.0, 2.0, 3.0, 4.0], [11.0, 12.0, 13.0, 14.0])
    assert zero["reduce"] == zero["given"]
    assert one["reduce"] == total
    for way in ("part", "list"):
        assert zero[way] + one[way] == total
    assert zero["uneven"] + one["uneven"] == total


def _fsdp() -> list[float]:
    torch.manual_seed(0)
    model = nn.Linear(8, 4, bias=False)
    alone = nn.Linear(8, 4, bias=False)
    alone.load_state_dict(model.state_dict())
    fully_shard(model)
    model.set_gradient_divide_factor(8.0)
    torch.manual_seed(1)
    batches = torch.randn(2, 3, 8)
    model(batches[dist.get_rank()]).sum().backward()
    for batch in batches:
        (alone(batch).sum() / 8).backward()
    gradient = next(model.parameters()).grad.full_tensor()
    torch.testing.assert_close(gradient, alone.weight.grad)
    return gradient.flatten().tolist()


def test_gradients_of_fsdp_are_divided_by_the_factor_that_was_set(tmp_path: Path) -> None:
    zero, one = on_ranks(2, _fsdp, tmp_path, backend="steptime")
    assert zero == one
