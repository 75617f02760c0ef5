"""What fails in the backend reaches every rank that is concerned, as an error that says what."""

import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from ranks import FORKED, on_ranks
from steptime.errors import SteptimeError, UsageError

pytestmark = pytest.mark.usefixtures("each_kernel")

PATIENCE_S = 300.0
SHORT_S = 8.0
"""A timeout that is to pass; a rank that a busy machine pauses still comes to a call within it."""


def _sentence(call: Callable[[], object]) -> str:
    try:
        call()
    except (SteptimeError, RuntimeError) as error:
        return str(error)
    return "no error"


def _group(members: tuple[int, ...] = (0, 1), timeout_s: float = PATIENCE_S) -> Any:
    import steptime.backend  # noqa: F401

    return dist.new_group(members, backend="steptime", timeout=timedelta(seconds=timeout_s))


# What one rank can see to be wrong


def test_what_cannot_be_done_is_refused_and_the_group_goes_on(tmp_path: Path) -> None:
    refusals, after = on_ranks(1, _refusals, tmp_path)[0]
    assert "MAX of torch.complex64" in refusals["complex"]
    assert "BXOR of torch.float32" in refusals["bitwise"]
    assert "expanded to (4,)" in refusals["expanded"]
    assert "layout" in refusals["sparse"]
    assert "meta" in refusals["device"]
    assert "cpu:steptime,cuda:nccl" in refusals["device"]
    assert "one for each rank" in refusals["list"]
    assert "into an output of 3" in refusals["output"]
    assert "splits" in refusals["splits"]
    assert "tag" in refusals["tag"]
    assert "steptime.backend.Options" in refusals["options"]
    assert after == [1.0, 1.0]


def _refusals() -> tuple[dict[str, str], list[float]]:
    group = _group((0,))
    two = torch.ones(2)

    def refused(call: Callable[[], object]) -> str:
        with pytest.raises(UsageError) as refusal:
            call()
        return str(refusal.value)

    maximum = group.allreduce.__func__
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MAX
    refusals = {
        "complex": refused(lambda: maximum(group, [two.to(torch.complex64)], options)),
        "bitwise": refused(lambda: dist.all_reduce(two, dist.ReduceOp.BXOR, group)),
        "expanded": refused(lambda: dist.all_reduce(torch.ones(1).expand(4), group=group)),
        "sparse": refused(lambda: dist.broadcast(two.to_sparse(), 0, group)),
        "device": refused(lambda: dist.all_reduce(torch.ones(2, device="meta"), group=group)),
        "list": refused(lambda: dist.all_gather([two, two], two, group)),
        "output": refused(lambda: dist.all_gather([torch.ones(3)], two, group)),
        "splits": refused(
            lambda: dist.all_to_all_single(two, torch.ones(2), [2], [1], group=group)
        ),
        "tag": refused(lambda: dist.isend(two, 0, group, tag=-1)),
        "options": refused(lambda: dist.new_group((0,), backend="steptime", pg_options="ring")),
    }
    dist.all_reduce(two, group=group)
    return refusals, two.tolist()


def test_a_reduction_of_any_dtype_is_carried_out_or_refused_and_the_group_goes_on(
    tmp_path: Path,
) -> None:
    (refusals, total), others = on_ranks(2, _reductions, tmp_path)
    assert (refusals, total) == others
    assert total == 2.0
    assert refusals["AVG", torch.bool] == (
        "torch has no ReduceOp.AVG of torch.bool on the CPU: convert the tensor first"
    )
    assert ("SUM", torch.float8_e5m2) not in refusals
    for (op, dtype), sentence in refusals.items():
        # torch.distributed itself refuses some of complex tensors.
        assert f"ReduceOp.{op} of {dtype}" in sentence or "complex tensors" in sentence


def _reductions() -> tuple[dict[tuple[str, torch.dtype], str], float]:
    """What is refused of all reductions and all dtypes of torch, and a sum after all of them."""
    group = _group()
    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    refusals = {}
    for dtype in sorted(dtypes, key=str):
        tensor = torch.zeros(64, dtype=torch.uint8).view(dtype)
        for op in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
            try:
                dist.all_reduce(tensor, getattr(dist.ReduceOp, op), group)
            except (UsageError, ValueError) as error:
                refusals[op, dtype] = str(error)
    one = torch.ones(1)
    dist.all_reduce(one, group=group)
    return refusals, one.item()


# What the ranks disagree about


def test_every_rank_learns_of_a_disagreement_however_it_waits(tmp_path: Path) -> None:
    first, second = on_ranks(2, _disagreements, tmp_path)
    for name, sentence in first.items():
        assert "all_reduce of float32[4]" in sentence, name
        assert "broadcast of float32[4]" in sentence, name
        assert "rank 0" in sentence, name
        assert "rank 1" in sentence, name
    assert first.keys() == second.keys()
    assert [s.split(" At:")[0].strip() for s in first.values()] == [
        s.split(" At:")[0].strip() for s in second.values()
    ]


def _disagreements() -> dict[str, str]:
    tensor = torch.ones(4)

    def differ(group: Any, asynchronous: bool) -> Any:
        if dist.get_rank() == 0:
            return dist.all_reduce(tensor, group=group, async_op=asynchronous)
        return dist.broadcast(tensor, 0, group, async_op=asynchronous)

    group, other, third, fourth = (_group() for _ in range(4))
    sentences = {"synchronous": _sentence(lambda: differ(group, False))}
    sentences["later"] = _sentence(lambda: dist.barrier(group))
    work = differ(other, True)
    sentences["wait"] = _sentence(work.wait)
    assert work.is_completed()
    assert not work.is_success()
    future = differ(third, True).get_future()
    sentences["future"] = _sentence(future.wait)
    unwaited = differ(fourth, True)
    while not unwaited.is_completed():
        time.sleep(0.01)
    sentences["unwaited"] = _sentence(lambda: dist.barrier(fourth))
    return {name: " ".join(text.split()) for name, text in sentences.items()}


def test_a_disagreement_under_ddp_raises_in_every_rank(tmp_path: Path) -> None:
    for found in on_ranks(2, _ddp_disagreement, tmp_path):
        for sentence in found:
            assert "disagree" in sentence
            assert "all_reduce of float32[7]" in sentence
            assert "all_reduce of float32[9]" in sentence


def _ddp_disagreement() -> list[str]:
    """Rank 1 reduces something else while rank 0's backward pass reduces gradients."""

    def hook(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
        return work.get_future().then(lambda done: done.value()[0])

    found = []
    for hooked in (False, True):
        group = _group()
        layer = nn.Linear(7, 1, bias=False)
        model = nn.parallel.DistributedDataParallel(layer, process_group=group)
        if hooked:
            model.register_comm_hook(group, hook)
        if dist.get_rank() == 1:
            call = partial(dist.all_reduce, torch.ones(9), group=group)
        else:
            call = model(torch.ones(2, 7)).sum().backward
        found.append(_sentence(call))
    return found


# Ranks that do not come


@pytest.mark.slow
def test_a_rank_that_does_not_come_is_named_at_the_timeout(tmp_path: Path) -> None:
    found = on_ranks(2, _late, tmp_path)
    assert "rank 1" in found[0]
    assert "all_reduce of float32[5]" in found[0]


def _late() -> str:
    group = _group(timeout_s=SHORT_S)
    sentence = ""
    if dist.get_rank() == 0:
        begin = time.monotonic()
        sentence = _sentence(lambda: dist.all_reduce(torch.ones(5), group=group))
        assert SHORT_S - 0.5 < time.monotonic() - begin < PATIENCE_S
    dist.barrier()  # of the world's own group, which goes on
    return sentence


def test_a_barrier_with_a_timeout_waits_no_longer(tmp_path: Path) -> None:
    assert "0.3 s" in on_ranks(2, _late_for_barrier, tmp_path)[0]


def _late_for_barrier() -> str:
    group = _group()
    sentence = ""
    if dist.get_rank() == 0:
        sentence = _sentence(lambda: dist.barrier(group, timeout=timedelta(seconds=0.3)))
    dist.barrier()
    if dist.get_rank() == 1:
        dist.barrier(group)
    return sentence


def test_a_killed_rank_is_named_soon_wherever_it_is_awaited(tmp_path: Path) -> None:
    queue = FORKED.Queue()
    ranks = [
        FORKED.Process(target=_with_killed, args=(rank, tmp_path / "store", queue))
        for rank in range(2)
    ]
    for process in ranks:
        process.start()
    try:
        found = queue.get(timeout=600)
    finally:
        for process in ranks:
            process.join(timeout=60)
            process.kill()
    assert ranks[0].exitcode == 0
    assert ranks[1].exitcode == -signal.SIGKILL
    assert found.keys() == {"backward", "collective", "message"}
    for where, (sentence, seconds) in found.items():
        assert "rank 1" in sentence, where
        assert "died" in sentence, where
        assert seconds < PATIENCE_S, where  # not the half hour of a group's timeout


def _with_killed(rank: int, store: Path, queue: Any) -> None:
    import steptime.backend  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("steptime", f"file://{store}", rank=rank, world_size=2)
    others = [dist.new_group() for _ in range(2)]
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    model(torch.ones(2, 8)).sum().backward()
    dist.barrier()
    output = model(torch.ones(2, 8))
    if rank == 1:
        output.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
    found = {}
    for where, call in (
        ("backward", output.sum().backward),
        ("collective", partial(dist.all_reduce, torch.ones(4), group=others[0])),
        ("message", partial(dist.recv, torch.ones(4), 1, others[1])),
    ):
        begin = time.monotonic()
        found[where] = (" ".join(_sentence(call).split()), time.monotonic() - begin)
    queue.put(found)
    queue.close()
    queue.join_thread()
    os._exit(0)
