"""What the backend does beyond gloo: own reductions, shared tensors, groups at once."""

import threading
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ranks import on_ranks
from steptime.errors import SteptimeError, UsageError

RANKS = 3


def test_the_backend_beyond_gloo(tmp_path: Path) -> None:
    for answer in on_ranks(RANKS, _everything, tmp_path):
        assert answer == {
            "custom": [7.0, 7.0],
            "custom asynchronous": [7.0, 7.0],
            "wide": [258.0, 258.0],
            "gathered into one": [1.0, -4.0, 7.0],
            "gathered into too few": "make the latter 3",
            "concurrent groups": True,
            "arena": True,
            "shared": [1.0, 2.0, 3.0],
            "shared, too large": "a shared tensor needs",
            "defaults": [3.0],
            "threads": "few",
            "unmatched message": "left behind",
        }


def _everything() -> dict[str, Any]:
    import steptime.backend as backend

    group: Any = dist.new_group(backend="steptime")
    rank = dist.get_rank()
    # The farther from zero: of 1, -4 and 7.
    farther = backend.custom("farther", lambda a, b: torch.where(a.abs() < b.abs(), b, a))
    answers: dict[str, Any] = {}
    own = torch.full((2,), (1.0, -4.0, 7.0)[rank])
    assert backend.all_reduce(own, farther, group) is None
    answers["custom"] = own.tolist()
    again = torch.full((2,), (1.0, -4.0, 7.0)[rank])
    backend.all_reduce(again, farther, group, async_op=True).wait()
    answers["custom asynchronous"] = again.tolist()
    # Rounded to bfloat16 at each step, both additions leave 256 as it is.
    wide = torch.full((2,), (256.0, 1.0, 1.0)[rank], dtype=torch.bfloat16)
    dist.all_reduce(wide, group=group)
    answers["wide"] = wide.tolist()
    answers["gathered into one"] = _gather_single(group, rank)
    answers["gathered into too few"] = _gather_into_too_few(rank)
    answers["concurrent groups"] = _concurrently()
    answers["arena"] = _in_arena(group)
    answers["shared"] = _share()
    answers["shared, too large"] = _share_too_much()
    one = torch.ones(1)
    group.allreduce([one]).wait()
    answers["defaults"] = one.tolist()
    answers["threads"] = "few" if threading.active_count() < 12 else threading.active_count()
    answers["unmatched message"] = _leave_message_behind()
    return answers


def _gather_single(group: Any, rank: int) -> list[float]:
    """What a rank gathers as the root, of all; each is it in turn. Torch calls it from 2.15 on."""
    own, landing = torch.full((1,), (1.0, -4.0, 7.0)[rank]), torch.zeros(RANKS)
    options = dist.GatherOptions()
    for root in range(RANKS):
        options.rootRank = root
        group.gather_single(landing if root == rank else torch.empty(0), own, options).wait()
    return landing.tolist()


def _gather_into_too_few(rank: int) -> str:
    """How it ends that an output does not hold what there is, in a group of one rank."""
    alone: Any = dist.new_group([rank], backend="steptime", use_local_synchronization=True)
    options = dist.GatherOptions()
    try:
        alone.gather_single(torch.zeros(2), torch.ones(3), options)
    except UsageError as error:
        return str(error)[-len("make the latter 3") :]
    return "nothing"


def _concurrently() -> bool:
    """Groups used by threads of their own, each in its own order."""
    groups = [dist.new_group(backend="steptime") for _ in range(3)]
    right: list[bool] = []

    def use(number: int) -> None:
        for i in range(50):
            tensor = torch.full((1000 * number + 1,), float(i))
            dist.all_reduce(tensor, group=groups[number])
            right.append(bool((tensor == RANKS * i).all()))

    threads = [threading.Thread(target=use, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for group in groups:
        dist.destroy_process_group(group)
    return len(right) == 150 and all(right)


def _in_arena(group: Any) -> bool:
    """A model whose gradients are reduced where they are, in shared memory."""
    import steptime.backend as backend

    flat = backend.empty(100_000, dtype=torch.float32)
    flat.fill_(dist.get_rank() + 1.0)
    dist.all_reduce(flat, group=group)
    model = nn.parallel.DistributedDataParallel(nn.Linear(300, 200), process_group=group)
    model(torch.ones(4, 300)).sum().backward()
    gradient = model.module.weight.grad
    return bool((flat == 6).all()) and gradient is not None and bool((gradient == 4).all())


def _share() -> list[float]:
    """Each rank writes its own element of one tensor, and reads all."""
    import steptime.backend as backend

    tensor = backend.shared(RANKS)
    tensor[dist.get_rank()] = dist.get_rank() + 1.0
    dist.barrier()
    return tensor.tolist()


def _share_too_much() -> str:
    import steptime.backend as backend

    try:
        backend.shared(1 << 45, dtype=torch.uint8)
    except SteptimeError as error:
        return str(error)[: len("a shared tensor needs")]
    return "accepted"


def _leave_message_behind() -> str:
    """A group with a message that never comes is destroyed without waiting for it."""
    group = dist.new_group(backend="steptime")
    if dist.get_rank() == 0:
        dist.irecv(torch.ones(3), 1, group)
    dist.destroy_process_group(group)
    return "left behind"
