"""Messages through torch.distributed, of the kernel in C and of the Python beside it alike."""

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from ranks import on_ranks
from steptime.backend import empty, lanes
from steptime.backend.host.mail import EAGER_BYTES

pytestmark = pytest.mark.usefixtures("each_kernel")

# Nothing, what fits into a ring many times, once, not at all, and several times.
BYTES = (0, 4, 1000, EAGER_BYTES, EAGER_BYTES + 4, 3_000_000)
DTYPES = (torch.float32, torch.int8, torch.bfloat16, torch.complex64)


def _group() -> Any:
    import steptime.backend

    return dist.new_group(backend=steptime.backend.NAME)


def _payload(number: int, source: int) -> torch.Tensor:
    dtype, size = DTYPES[number % len(DTYPES)], BYTES[number % len(BYTES)]
    seed = torch.Generator().manual_seed(1000 * number + source)
    bits = torch.randint(0, 100, (size,), dtype=torch.uint8, generator=seed)
    return bits[: size // dtype.itemsize * dtype.itemsize].view(dtype)


@pytest.mark.parametrize("ranks", [2, 3])
def test_messages_in_any_order_are_those_that_were_sent(ranks: int, tmp_path: Path) -> None:
    assert on_ranks(ranks, _in_any_order, tmp_path) == [[]] * ranks


def _in_any_order() -> list[int]:
    """Rounds in which everyone sends everyone messages, each its own tag, in orders of its own.

    All are begun before any is waited for; every other round a tensor has holes, or is sent from
    the arena.
    """
    group, rank, ranks = _group(), dist.get_rank(), dist.get_world_size()
    others = [other for other in range(ranks) if other != rank]
    order, wrong = random.Random(rank), []  # noqa: S311
    for turn in range(4):
        routes = [(other, tag) for other in others for tag in range(6 * turn, 6 * turn + 6)]
        sends, recvs = routes.copy(), routes.copy()
        order.shuffle(sends)
        order.shuffle(recvs)
        works, received = [], {}
        for to, tag in sends:
            payload = _payload(tag, rank)
            if turn % 2:
                payload = empty(len(payload), dtype=payload.dtype).copy_(payload)
            works.append(dist.isend(payload, to, group, tag))
        for source, tag in recvs:
            wanted = _payload(tag, source)
            target = torch.empty(2 * len(wanted), dtype=wanted.dtype)[:: 1 + turn % 2]
            received[source, tag] = target[: len(wanted)]
            works.append(dist.irecv(received[source, tag], source, group, tag))
        order.shuffle(works)
        for work in works:
            work.wait()
        wrong += [
            tag
            for (source, tag), got in received.items()
            if not torch.equal(got, _payload(tag, source))
        ]
    return wrong


def test_messages_of_one_tag_arrive_in_their_order(tmp_path: Path) -> None:
    assert on_ranks(2, _of_one_tag, tmp_path) == [[], []]


def _of_one_tag() -> list[int]:
    """Large and small ones by turns, some received before they were sent, some after."""
    group, rank = _group(), dist.get_rank()
    sizes = [BYTES[number % len(BYTES)] for number in range(30)]
    targets = [torch.empty(size, dtype=torch.uint8) for size in sizes]
    sources = [torch.full((size,), number, dtype=torch.uint8) for number, size in enumerate(sizes)]
    if rank == 0:
        works = [dist.isend(source, 1, group) for source in sources[:15]]
        dist.barrier(group)
        works += [dist.isend(source, 1, group) for source in sources[15:]]
    else:
        works = [dist.irecv(target, 0, group) for target in targets[:20]]
        dist.barrier(group)
        works += [dist.irecv(target, 0, group) for target in targets[20:]]
    for work in reversed(works):
        work.wait()
    pairs = enumerate(zip(targets, sources, strict=True))
    return [number for number, (got, sent) in pairs if rank and not torch.equal(got, sent)]


def test_a_tensor_may_change_once_its_message_was_waited_for(tmp_path: Path) -> None:
    assert on_ranks(2, _changed, tmp_path) == [[], []]


def _changed() -> list[int]:
    group, rank, wrong = _group(), dist.get_rank(), []
    tensor, elements = torch.empty(10**6), 10**6
    for turn in range(20):
        if rank == 0:
            work = dist.isend(tensor.fill_(turn), 1, group)
            assert work is not None
            work.wait()
            tensor.fill_(-1)
        else:
            received = torch.empty(elements)
            dist.recv(received, 0, group)
            wrong += [turn] if not bool((received == turn).all()) else []
    return wrong


def test_a_receipt_tells_its_sender_whether_it_waited_or_not(tmp_path: Path) -> None:
    assert on_ranks(2, _senders, tmp_path) == [[1, 1, 1], [0, 0, 0]]


def _senders() -> list[int]:
    group, rank = _group(), dist.get_rank()
    found, received = [], torch.empty(3)
    for early in (True, False):
        if not early:
            dist.barrier(group)
        work = dist.irecv(received, 1 - rank, group) if early else None
        dist.barrier(group)
        dist.send(torch.ones(3), 1 - rank, group)
        dist.barrier(group)
        work = work or dist.irecv(received, 1 - rank, group)
        assert work is not None
        work.wait()
        found.append(work._source_rank())
        [result] = work.get_future().wait()
        assert result.tolist() == [1, 1, 1]
    dist.send(torch.ones(3), 1 - rank, group)
    return [*found, dist.recv(received, group=group)]


def test_two_that_send_to_each_other_first_need_no_other_thread(
    tmp_path: Path, each_kernel: str
) -> None:
    if each_kernel == "python":
        pytest.skip("Python writes what is large through the ring, which takes a thread")
    assert on_ranks(2, _without_threads, tmp_path) == [0, 0]


def _without_threads() -> int:
    """Each waits for its own message to have been sent before it waits for the other's."""
    lanes.Lane.summon = lambda _: False  # type: ignore[method-assign]
    group, rank, wrong = _group(), dist.get_rank(), 0
    received = torch.empty(10**6)
    for turn in range(10):
        sent = dist.isend(torch.full((10**6,), float(turn + rank)), 1 - rank, group)
        work = dist.irecv(received, 1 - rank, group)
        assert sent is not None
        assert work is not None
        sent.wait()
        work.wait()
        wrong += not bool((received == turn + 1 - rank).all())
    dist.barrier(group)
    return wrong


def test_a_message_on_offer_takes_no_thread(tmp_path: Path, each_kernel: str) -> None:
    if each_kernel == "python":
        pytest.skip("Python writes what is large through the ring, which takes a thread")
    assert on_ranks(2, _on_offer, tmp_path) == [[True, False, True], [True]]


def _on_offer() -> list[bool]:
    """Whether rank 0 has a thread for its message while rank 1 does not ask for it, and after."""
    group, rank = _group(), dist.get_rank()
    payload = torch.arange(10**6, dtype=torch.float32)
    if rank == 1:
        dist.barrier(group)
        received = torch.empty(10**6)
        dist.recv(received, 0, group)
        return [torch.equal(received, payload)]
    work = dist.isend(payload, 1, group)
    assert work is not None
    time.sleep(0.05)  # many looks of the crew
    begun = not work.is_completed()
    threads = {thread.name for thread in threading.enumerate()}
    dist.barrier(group)
    while not work.is_completed():  # nobody waits for it, and it ends all the same
        time.sleep(0.001)
    return [begun, "the messages of a group" in threads, work.is_success()]


def test_a_rank_ends_whose_message_nobody_receives(tmp_path: Path) -> None:
    assert on_ranks(2, _never_received, tmp_path) == [True, True]


def _never_received() -> bool:
    group, rank = _group(), dist.get_rank()
    work = dist.isend(torch.ones(10**6), 1, group) if rank == 0 else None
    dist.barrier(group)
    return work is None or not work.is_completed()
