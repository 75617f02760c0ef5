"""Messages: tags, any source, sizes beyond the ring, from several threads, beside collectives."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor

from backend.host.group import in_group
from steptime.backend import empty
from steptime.backend.host import Call, HostGroup, Kind, segment
from steptime.backend.host.channel import LINE_BYTES
from steptime.backend.host.mail import EAGER_BYTES
from steptime.backend.host.waits import waits
from steptime.errors import SteptimeError
from steptime.world import LostContactError

pytestmark = pytest.mark.usefixtures("each_kernel")


def _send(group: HostGroup, tensor: Tensor, to: int, tag: int = 0) -> None:
    group.send(Call.of(Kind.SEND, tensor.dtype, tensor.numel(), to), tensor, to, tag)


def _recv(group: HostGroup, tensor: Tensor, source: int | None, tag: int = 0) -> int:
    root = -1 if source is None else source
    call = Call.of(Kind.RECV, tensor.dtype, tensor.numel(), root)
    return group.recv(call, tensor, source, tag)


def _numbers(elements: int, seed: int) -> Tensor:
    return torch.arange(elements, dtype=torch.int32) * 3 + seed


def _sizes(group: HostGroup) -> None:
    """One after the other over the same ring, so that it wraps at every place."""
    for elements in (0, 1, 31, 33, 1000, EAGER_BYTES // 4, EAGER_BYTES // 4 + 1, 10**6):
        for seed in range(3):
            if group.rank == 0:
                _send(group, _numbers(elements, seed), 1)
            else:
                received = torch.empty(elements, dtype=torch.int32)
                assert _recv(group, received, 0) == 0
                assert torch.equal(received, _numbers(elements, seed))


def _tags(group: HostGroup) -> None:
    """Received in another order than sent, each larger than the ring once."""
    tags = [(7, 10), (-3, 10**5), (7, 20), (0, 1), (-(2**63), 2), (2**63 - 1, 3)]
    if group.rank == 0:
        for tag, elements in tags:
            _send(group, _numbers(elements, tag % 100), 1, tag)
    else:
        for tag, elements in (tags[3], tags[1], tags[5], tags[4], tags[0], tags[2]):
            received = torch.empty(elements, dtype=torch.int32)
            _recv(group, received, 0, tag)
            assert torch.equal(received, _numbers(elements, tag % 100))


def _any_source(group: HostGroup) -> None:
    if group.rank == 0:
        received = torch.empty(3, dtype=torch.int32)
        sources = []
        for _ in range(2 * (group.ranks - 1)):
            source = _recv(group, received, None, 4)
            assert torch.equal(received, _numbers(3, source))
            sources.append(source)
        assert sorted(sources) == sorted(2 * list(range(1, group.ranks)))
    else:
        for _ in range(2):
            _send(group, _numbers(3, group.rank), 0, 4)


def _both_ways(group: HostGroup) -> None:
    """All ranks send to all others, from threads, while they do collectives."""
    elements, others = 10**6, [r for r in range(group.ranks) if r != group.rank]
    received = {other: torch.empty(elements, dtype=torch.int32) for other in others}
    with ThreadPoolExecutor(4 * len(others)) as threads:
        pending = [
            threads.submit(_send, group, _numbers(elements, group.rank), other) for other in others
        ]
        pending += [threads.submit(_recv, group, received[other], other) for other in others]
        for _ in range(200):
            group.barrier(Call.of(Kind.BARRIER))
        for work in pending:
            work.result()
    for other in others:
        assert torch.equal(received[other], _numbers(elements, other))


def _waiting_for_tags(group: HostGroup) -> None:
    """Threads of one rank that wait for different tags do not hold each other up."""
    if group.rank == 0:
        for tag in (2, 1, 0):
            _send(group, _numbers(10, tag), 1, tag)
            _recv(group, torch.empty(1), 1, tag)
    else:

        def answer(tag: int) -> None:
            received = torch.empty(10, dtype=torch.int32)
            _recv(group, received, 0, tag)
            assert torch.equal(received, _numbers(10, tag))
            _send(group, torch.zeros(1), 0, tag)

        with ThreadPoolExecutor(3) as threads:
            list(threads.map(answer, range(3)))


def _mismatch(group: HostGroup) -> str | None:
    """The receiver is told; afterwards the two can go on."""
    if group.rank == 0:
        _send(group, torch.zeros(100), 1, 3)
        _send(group, torch.ones(2), 1, 3)
        return None
    with pytest.raises(SteptimeError) as raised:
        _recv(group, torch.empty(4, dtype=torch.int64), 0, 3)
    received = torch.empty(2)
    _recv(group, received, 0, 3)
    assert received.tolist() == [1, 1]
    return str(raised.value)


def _in_turn(group: HostGroup, *cases: Callable[[HostGroup], object]) -> list[object]:
    results = []
    for case in cases:
        group.barrier(Call.of(Kind.BARRIER))
        results.append(case(group) if group.rank < 2 or case in (_any_source, _both_ways) else None)
    group.barrier(Call.of(Kind.BARRIER))
    return results


def test_messages_arrive_whole_by_tag_and_source(tmp_path: Path) -> None:
    cases = (_sizes, _tags, _any_source, _both_ways, _waiting_for_tags, _mismatch)
    _, (*_, sentence), _ = in_group(3, _in_turn, tmp_path, *cases)
    assert sentence == (
        "rank 0 called send of float32[100] to rank 1 with tag 3, for which rank 1 called recv of "
        "int64[4] from rank 0: size and dtype must be the same"
    )


def _offers_refused(group: HostGroup) -> list[bool]:
    """Rank 1 may not copy out of rank 0's memory: what is large comes through the ring."""
    side = group.mail._in[0].channel.side
    if group.rank == 1:
        side.writer = 0  # no process
    right = []
    for seed, elements in enumerate((10**6, 10**6, 5, EAGER_BYTES // 4 + 1)):
        if group.rank == 0:
            _send(group, _numbers(elements, seed), 1)
        else:
            received = torch.empty(elements, dtype=torch.int32)
            _recv(group, received, 0)
            right.append(torch.equal(received, _numbers(elements, seed)))
    return right


def test_what_may_not_be_copied_out_of_the_sender_comes_through_the_ring(
    tmp_path: Path, each_kernel: str
) -> None:
    if each_kernel == "python":
        pytest.skip("Python copies all messages through the ring")
    assert in_group(2, _offers_refused, tmp_path) == [[], [True] * 4]


def _unmapped(group: HostGroup) -> bool:
    """Rank 1 cannot map the arena of rank 0: the message comes all the same."""
    if group.rank == 0:
        _send(group, empty(10**6, dtype=torch.int32).copy_(_numbers(10**6, 1)), 1)
        return True
    received = torch.empty(10**6, dtype=torch.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "map_of", lambda *_: None)  # as of a process that has ended
        _recv(group, received, 0)
    return torch.equal(received, _numbers(10**6, 1))


def test_an_arena_that_cannot_be_mapped_stops_no_message(tmp_path: Path) -> None:
    assert in_group(2, _unmapped, tmp_path) == [True, True]


def _out_of_the_arena(group: HostGroup) -> tuple[list[bool], int]:
    """Rank 1 may not copy out of rank 0's memory, but maps its arena, and what that grows by."""
    side = group.mail._in[0].channel.side
    if group.rank == 1:
        side.writer = 0  # no process
    right, kept = [], []
    for seed, (elements, first) in enumerate(((10**6, 0), (10**6, 5), (2 * 10**7, 9), (10**6, 0))):
        if group.rank == 0:
            kept.append(empty(elements, dtype=torch.int32))
            tensor = kept[-1][first:]
            tensor.copy_(_numbers(elements, seed)[first:])
            _send(group, tensor, 1)
        else:
            received = torch.empty(elements - first, dtype=torch.int32)
            _recv(group, received, 0)
            right.append(torch.equal(received, _numbers(elements, seed)[first:]))
    return right, side.written()


def test_what_is_in_the_arena_of_the_sender_is_copied_out_of_it(
    tmp_path: Path, each_kernel: str
) -> None:
    if each_kernel == "python":
        pytest.skip("Python copies all messages through the ring")
    _, (right, written) = in_group(2, _out_of_the_arena, tmp_path)
    assert right == [True] * 4
    assert written == 4 * LINE_BYTES  # their heads, and nothing else


def _withdrawn(group: HostGroup, sent: Path, in_arena: bool) -> str | None:
    """Rank 0 is interrupted while its message is on offer, and changes the tensor."""
    if group.rank == 0:
        tensor = _numbers(10**6, 1)
        tensor = empty(10**6, dtype=torch.int32).copy_(tensor) if in_arena else tensor
        with pytest.raises(_Interrupted), pytest.MonkeyPatch.context() as patch:
            patch.setattr(group.mail, "_watch", lambda *_: _interrupt)
            _send(group, tensor, 1)
        tensor.zero_()
        sent.touch()
        return None
    while not sent.exists():
        threading.Event().wait(0.01)
    with pytest.raises(LostContactError) as raised:
        _recv(group, torch.empty(10**6, dtype=torch.int32), 0)
    return str(raised.value)


class _Interrupted(BaseException):
    """As Ctrl-C raises one."""


def _interrupt(_seconds: float, _waiting: Callable[[], bool]) -> None:
    raise _Interrupted


def _meanwhile(group: HostGroup) -> bool:
    """Whether rank 0 has received what had come when its own message has been taken."""
    large, call = torch.ones(10**6), Call.of(Kind.SEND, torch.float32, 10**6, 1)
    if group.rank == 1:
        _send(group, torch.ones(3), 0, 5)
        group.barrier(Call.of(Kind.BARRIER))
        threading.Event().wait(0.1)
        _recv(group, large, 0)
        return True
    group.barrier(Call.of(Kind.BARRIER))
    received = torch.zeros(3)
    expected = group.mail.expect(Call.of(Kind.RECV, torch.float32, 3, 1), received, 1, 5)
    number = group.mail.offer(call, large, 1, 0)
    group.mail.finish(call, 1, 0, number)
    taken = expected.received and bool(received.all())
    return taken and group.mail.receive(expected) == 1


def test_who_waits_to_have_sent_receives_meanwhile(tmp_path: Path, each_kernel: str) -> None:
    if each_kernel == "python":
        pytest.skip("Python has no messages on offer")
    assert in_group(2, _meanwhile, tmp_path) == [True, True]


@pytest.mark.parametrize("in_arena", [False, True])
def test_an_interrupted_send_is_never_received(tmp_path: Path, in_arena: bool) -> None:
    _, sentence = in_group(2, _withdrawn, tmp_path, tmp_path / "sent", in_arena, timeout_s=20)
    assert "failed in send of int32[1000000] to rank 1, tag 0: _Interrupted" in sentence


def _never_sent(group: HostGroup, told: Path) -> str | None:
    if group.rank == 0:
        while not told.exists():
            threading.Event().wait(0.05)
        return None
    with pytest.raises(LostContactError) as raised:
        _recv(group, torch.empty(3), 0, 9)
    told.touch()
    return str(raised.value)


@pytest.mark.slow
def test_a_message_that_does_not_come_names_who_should_have_sent_it(tmp_path: Path) -> None:
    _, sentence = in_group(2, _never_sent, tmp_path, tmp_path / "told", timeout_s=8)
    assert sentence.startswith("rank 1 reached the timeout of 8 s waiting for rank 0 (pid ")
    assert sentence.endswith(") in recv of float32[3] from rank 0, tag 9")


def _sender_gone(group: HostGroup) -> str | None:
    if group.rank == 0:
        _send(group, torch.ones(3), 1)
        return None
    received = torch.empty(3)
    threading.Event().wait(0.3)
    _recv(group, received, 0)  # what it sent before it left is there
    assert received.tolist() == [1, 1, 1]
    with pytest.raises(LostContactError) as raised:
        _recv(group, received, 0)
    return str(raised.value)


def test_a_rank_that_left_sends_no_more(tmp_path: Path) -> None:
    _, sentence = in_group(2, _sender_gone, tmp_path)
    assert sentence.endswith(
        "left the group while rank 1 was in recv of float32[3] from rank 0, tag 0"
    )


def _from_those_who_stay(group: HostGroup, left: Path) -> int | str | None:
    if group.rank == 1:
        group.close()
        left.touch()
        return None
    while not left.exists():
        threading.Event().wait(0.01)
    if group.rank == 2:
        threading.Event().wait(0.5)  # until the receiver looks who is left
        _send(group, torch.ones(3), 0)
        return None
    return _recv(group, torch.empty(3), None)


def test_a_receiver_from_any_waits_for_those_who_have_not_left(tmp_path: Path) -> None:
    source, *_ = in_group(3, _from_those_who_stay, tmp_path, tmp_path / "left", timeout_s=20)
    assert source == 2


def _waits_left(group: HostGroup) -> list[int]:
    """How many threads are told to wait after each call for which rank 0 had to wait."""
    call, left = Call.of(Kind.BARRIER), []

    def receive() -> None:
        _recv(group, torch.empty(3), 1)

    def receive_from_any() -> None:
        _recv(group, torch.empty(3), None)

    def send() -> None:
        _send(group, torch.zeros(10**6), 1)

    def meet() -> None:
        group.barrier(call)

    answers = (
        *(lambda: _send(group, torch.ones(3), 0) for _ in range(2)),
        lambda: _recv(group, torch.empty(10**6), 0),
        meet,
    )
    for wait, answer in zip((receive, receive_from_any, send, meet), answers, strict=True):
        if group.rank:
            threading.Event().wait(0.3)  # until the other tells what it waits for
            answer()
        else:
            wait()
        left.append(len(waits()._of_threads))
    return left


def test_who_has_been_answered_is_told_to_wait_no_more(tmp_path: Path) -> None:
    assert in_group(2, _waits_left, tmp_path) == [[0] * 4] * 2


def _agreed(group: HostGroup) -> list[bool]:
    call = Call.of(Kind.ALL_TO_ALL, torch.float32, 6)
    others = ((3, 4), (4, 5))  # rank i sends so many to each; each pair exchanges alike
    cases = (((), ()), ((3, 3), (3, 3)), (others[group.rank], others[group.rank]))
    return [group.agree(call, sent, expected) for sent, expected in cases]


def test_ranks_agree_whether_all_exchange_equally_much(tmp_path: Path) -> None:
    assert in_group(2, _agreed, tmp_path) == [[True, True, False]] * 2
