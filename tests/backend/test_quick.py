"""Calls that C carries out past Python: which it takes, and that it takes no other."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from ranks import on_ranks
from steptime.backend import empty
from steptime.backend.host import kernel
from steptime.backend.host.mail import EAGER_BYTES
from steptime.world.compat import ReduceOp

pytestmark = pytest.mark.skipif(not kernel.is_built(), reason="no C was built")

TYPES = [
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16),
    *(torch.int8, torch.uint8, torch.int16, torch.uint16),
    *(torch.int32, torch.uint32, torch.int64, torch.uint64),
]
ORDINARY = 5, 3000, 100_000  # through a slot whole, through slots in blocks, past WINDOW_BYTES


def _group() -> Any:
    import steptime.backend

    return dist.new_group(backend=steptime.backend.NAME)


def _backend(group: Any) -> Any:
    return group._get_backend(torch.device("cpu"))


def _options(op: Any = ReduceOp.SUM, root: int = 0, *, waits: bool = True) -> Any:
    opts = dist.AllreduceOptions() if root == 0 else dist.BroadcastOptions()
    opts.asyncOp = not waits
    if root == 0:
        opts.reduceOp = op
    else:
        opts.rootRank = root
    return opts


def test_every_collective_of_every_type_is_taken_and_right(tmp_path: Path) -> None:
    assert on_ranks(2, _of_every_type, tmp_path) == [[]] * 2


def _of_every_type() -> list[str]:
    quick, rank = _backend(_group())._quick, dist.get_rank()
    wrong = []
    for dtype in TYPES:
        for size in ORDINARY:
            for make in (torch.empty, empty):
                found = _each(quick, rank, dtype, 2 * size, make)
                wrong += [
                    f"{name} of {dtype}[{size}]" for name, right in found.items() if not right
                ]
    return wrong


def _each(quick: Any, rank: int, dtype: torch.dtype, size: int, make: Any) -> dict[str, bool]:
    """Whether each collective was taken and has given what it is defined to give."""
    pattern = torch.arange(size) % 50
    both = [(pattern + which).to(dtype) for which in (0, 1)]
    total = (2 * pattern + 1).to(dtype)
    opts, half = _options(), slice(rank * size // 2, (rank + 1) * size // 2)

    def given() -> torch.Tensor:
        return make(size, dtype=dtype).copy_(both[rank])  # type: ignore[no-any-return]

    reduced, sent = given(), given()
    whole, part, dealt = make(2 * size, dtype=dtype), make(size // 2, dtype=dtype), given()
    return {
        "all_reduce": quick.all_reduce([reduced], opts) and torch.equal(reduced, total),
        "broadcast": quick.broadcast([sent], _options(root=1)) and torch.equal(sent, both[1]),
        "all_gather": quick.all_gather_single(whole, given(), opts)
        and torch.equal(whole, torch.cat(both)),
        "reduce_scatter": quick.reduce_scatter_single(part, given(), opts)
        and torch.equal(part, total[half]),
        "all_to_all": quick.all_to_all_single(dealt, given(), [], [], opts)
        and torch.equal(dealt, torch.cat([one[half] for one in both])),
    }


def test_every_operation_is_that_which_torch_means(tmp_path: Path) -> None:
    assert on_ranks(2, _of_every_operation, tmp_path) == [[]] * 2


def _of_every_operation() -> list[str]:
    quick, rank = _backend(_group())._quick, dist.get_rank()
    wanted = {"SUM": 9, "PRODUCT": 18, "MIN": 3, "MAX": 6, "BAND": 2, "BOR": 7, "BXOR": 5, "AVG": 4}
    wrong = []
    for name, value in wanted.items():
        number = torch.full((4,), (3, 6)[rank])
        opts = _options(getattr(ReduceOp, name))
        if not quick.all_reduce([number], opts) or number.tolist() != [value] * 4:
            wrong.append(f"{name}: {number.tolist()}")
    return wrong


class _Own(torch.Tensor):
    """A user's own kind of tensor."""


def test_what_takes_more_than_the_kernel_is_left_as_it_is(tmp_path: Path) -> None:
    assert on_ranks(1, _left, tmp_path) == [[]]


def _left() -> list[str]:
    group = _group()
    quick = _backend(group)._quick
    plain, other = torch.ones(4), _options(ReduceOp.BAND)
    premultiplied = dist._make_nccl_premul_sum(2.0)
    refused = {
        "holes": ([torch.ones(8)[::2]], _options()),
        "the other sign": ([torch._neg_view(torch.ones(4))], _options()),
        "conjugated": ([torch.ones(4, dtype=torch.complex64).conj()], _options()),
        "truth values": ([torch.ones(4, dtype=torch.bool)], _options()),
        "eight bits": ([torch.ones(4).to(torch.float8_e5m2)], _options()),
        "nothing": ([torch.ones(0)], _options()),
        "one place": ([torch.ones(1).expand(4)], _options()),
        "sparse": ([torch.ones(4).to_sparse()], _options()),
        "no memory": ([torch.ones(4, device="meta")], _options()),
        "two tensors": ([plain, plain], _options()),
        "another class": ([plain.as_subclass(_Own)], _options()),  # type: ignore[no-untyped-call]
        "not waited for": ([plain], _options(waits=False)),
        "bits of floats": ([plain], other),
        "a factor": ([plain], _options(premultiplied)),
        "no list": (plain, _options()),
        "no tensor": ([4], _options()),
    }
    taken = [name for name, given in refused.items() if quick.all_reduce(*given)]
    uneven = (
        ([1], [1], torch.ones(4), torch.ones(4)),  # splits
        ([], [], torch.ones(4), torch.ones(5)),
        ([], [], torch.ones(4, dtype=torch.int32), torch.ones(4)),
    )
    for into, out, output, tensor in uneven:
        if quick.all_to_all_single(output, tensor, into, out, _options()):
            taken.append(f"all_to_all of {into} {out}")
    if quick.all_gather_single(torch.ones(5), torch.ones(4), _options()):
        taken.append("all_gather into another size")
    negative = torch._neg_view(torch.ones(4))
    dist.all_reduce(negative, group=group)
    if negative.tolist() != [-1.0] * 4:
        taken.append(f"the other sign: {negative.tolist()}")
    parameter = torch.nn.Parameter(torch.ones(4))
    if not quick.all_reduce([parameter], _options()):
        taken.append("a parameter was left")
    return taken


def test_a_call_that_others_come_before_is_left(tmp_path: Path) -> None:
    assert on_ranks(1, _in_order, tmp_path) == [(False, False, False, True, False)]


def _in_order() -> tuple[bool, ...]:
    backend = _backend(_group())
    lane, quick, given = backend._lane, backend._quick, ([torch.ones(1)], _options())
    lane.tasks.append(None)
    queued = quick.all_reduce(*given)
    lane.tasks.clear()
    with lane.turn:
        running = quick.all_reduce(*given)
    lane.failure = RuntimeError()
    failed = quick.all_reduce(*given)
    lane.failure = None
    free, here = quick.all_reduce(*given), os.getpid()
    reading, writing = os.pipe()
    if not os.fork():
        os.write(writing, bytes([quick.all_reduce(*given)]))
        os._exit(0)
    forked = bool(os.read(reading, 1)[0])
    os.wait()
    assert os.getpid() == here
    return queued, running, failed, free, forked


def test_brief_messages_are_taken_in_their_order_and_no_others(tmp_path: Path) -> None:
    assert on_ranks(2, _brief, tmp_path) == [[], []]


def _brief() -> list[str]:
    group, rank = _group(), dist.get_rank()
    backend = _backend(group)
    wrong = []

    def expect(of: str, found: object, right: object) -> None:
        if found != right:
            wrong.append(f"{of}: {found}")

    number = torch.zeros(1)
    if rank == 0:
        for tag in (3, 4):
            dist.send(torch.tensor([float(tag)]), 1, group, tag)
        out = backend._out[1, 3]
        expect("room", out.send([torch.ones(1)]), True)
        expect("holes", out.send([torch.ones(4)[::2]]), False)
        expect("large", out.send([torch.ones(EAGER_BYTES // 4 + 1)]), False)
        with backend._routes.lanes["send", 1, 3].turn:
            expect("another's turn", out.send([torch.ones(1)]), False)
    dist.barrier(group)
    if rank == 1:
        dist.recv(number, 0, group, 4)  # takes the other tag's before it
        expect("the later tag", number.item(), 4.0)
        backend._routes._lane_of("recv", 0, 3)
        back = backend._back[0, 3]
        expect("kept in Python", back.receive([number]), False)
        dist.recv(number, 0, group, 3)
        expect("what was kept", number.item(), 3.0)
        expect("another type", back.receive([torch.zeros(1, dtype=torch.int32)]), False)
        expect("another size", back.receive([torch.zeros(2)]), False)
        expect("the next one", (back.receive([number]), number.item()), (True, 1.0))
        expect("nothing", back.receive([number]), False)
    dist.barrier(group)
    return wrong


def test_a_receive_looks_a_while_for_its_message_where_one_is_waited_for_at_once(
    tmp_path: Path,
) -> None:
    assert on_ranks(2, _late_messages, tmp_path) == [(False, True), (False, True)]


_TRIES, _BATCH, _LATE_S = 200, 25, 60e-6


def _late_messages() -> tuple[bool, bool]:
    """Whether a receive that was left for a while counts as waited for at once; and whether, in
    any batch, most of the messages that come late are received past Python.
    """
    group, rank = _group(), dist.get_rank()
    routes = _backend(group)._routes
    number, receive, tasks = torch.zeros(1), routes.receive, 0

    def counted(*arguments: Any) -> Any:
        nonlocal tasks
        tasks += 1
        return receive(*arguments)

    routes.receive = counted
    if rank == 0:
        work = dist.irecv(number, 1, group)
        assert work is not None
        time.sleep(0.002)
        dist.barrier(group)
        work.wait()
    else:
        dist.barrier(group)
        dist.send(number, 0, group)
    left = rank == 0 and routes.lanes["recv", 1, 0].is_awaited_at_once
    fewest = _BATCH
    for _ in range(_TRIES):
        tasks = 0
        for _ in range(_BATCH):
            if rank == 0:
                dist.recv(number, 1, group)
                dist.send(number, 1, group)
            else:
                until = time.perf_counter() + _LATE_S
                while time.perf_counter() < until:
                    pass
                dist.send(number, 0, group)
                dist.recv(number, 0, group)
        fewest = min(fewest, tasks)
    return left, rank == 1 or fewest < _BATCH / 2


def test_tensors_that_lie_over_each_other_are_read_before_they_are_written(tmp_path: Path) -> None:
    assert on_ranks(2, _overlapping, tmp_path) == [[]] * 2


def _overlapping() -> list[str]:
    """In the arena, where ranks read each other's memory: as long as none writes to it."""
    group, rank, size = _group(), dist.get_rank(), 12_000
    both = [torch.arange(size) + 50_000 * which for which in (0, 1)]
    other, half = 1 - rank, size // 2
    given = empty(size, dtype=torch.int64)
    wrong = []
    for _ in range(50):
        given.copy_(both[rank])
        dist.reduce_scatter_single(given[other * half : (other + 1) * half], given, group=group)
        if not torch.equal(given[other * half :][:half], sum(both)[rank * half :][:half]):  # type: ignore[index]
            wrong.append("reduce_scatter")
        given.copy_(both[rank])
        dist.all_to_all_single(given, given, group=group)
        if not torch.equal(given, torch.cat([one.chunk(2)[rank] for one in both])):
            wrong.append("all_to_all")
    return wrong
