"""Messages over the backend's own connections: here between the threads of one process."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import HashStore  # type: ignore[attr-defined]

from steptime.backend.sockets import LostPeerError, Mesh, meet, rails
from steptime.backend.sockets.peer import Peer
from steptime.backend.sockets.pipe import Pipe
from steptime.backend.sockets.requests import HEAD, STRIPED_BYTES, Receipt, split
from steptime.errors import SteptimeError, UsageError
from steptime.world.environment import LostContactError

CALL = bytes(range(64))
LARGE = 8 << 20  # more than the kernel takes of a connection that nobody reads
LIMIT_S = 60.0


def connected(ranks: int, names: str = "lo") -> list[Mesh]:
    """The meshes of all ranks, connected over these interfaces."""
    store = HashStore()

    def join(rank: int) -> Mesh:
        return meet(store, rank, ranks, [10 + r for r in range(ranks)], LIMIT_S)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(ranks) as threads:
        patch.setenv(rails.VARIABLES[0], names)
        return list(threads.map(join, range(ranks)))


@pytest.fixture
def pair() -> Iterator[list[Mesh]]:
    yield from _closing(connected(2))


@pytest.fixture
def trio() -> Iterator[list[Mesh]]:
    yield from _closing(connected(3))


def _closing(meshes: list[Mesh]) -> Iterator[list[Mesh]]:
    yield meshes
    for mesh in meshes:
        mesh.close()


def room(size: int) -> memoryview:
    return memoryview(bytearray(size))


def data(size: int) -> memoryview:
    return memoryview(os.urandom(size))


def together(*calls: Callable[[], object]) -> None:
    """Make calls in a thread each; raises what any of them raises."""
    with ThreadPoolExecutor(len(calls)) as threads:
        for made in [threads.submit(call) for call in calls]:
            made.result(LIMIT_S)


def test_messages_are_told_apart_by_tag_and_keep_their_order_within_one(pair: list[Mesh]) -> None:
    sent = [(7, data(100)), (8, data(100)), (7, data(100)), (7, data(0))]
    for tag, message in sent:
        pair[0].send(CALL, 1, tag, message)
    for tag, message in (sent[1], sent[0], sent[2], sent[3]):
        receipt = pair[1].receive(0, tag, room(len(message)))
        pair[1].wait(receipt, LIMIT_S)
        assert receipt.payload == message
        assert (receipt.source, receipt.call) == (0, CALL)


@pytest.mark.parametrize("names", ["lo", "lo,lo", "lo,lo,lo"])
def test_large_messages_pass_both_ways_at_once_over_any_number_of_rails(names: str) -> None:
    meshes = connected(2, names)
    messages = [data(LARGE + 1), data(LARGE + 13)]
    landed = [room(len(messages[1])), room(len(messages[0]))]

    def swap(rank: int) -> None:
        sending = meshes[rank].send(CALL, 1 - rank, 0, messages[rank])
        last = meshes[rank].send(CALL, 1 - rank, 0, messages[rank][:5])
        receipt = meshes[rank].receive(1 - rank, 0, landed[rank])
        short = meshes[rank].receive(1 - rank, 0, room(5))
        for request in (receipt, sending, last, short):
            meshes[rank].wait(request, LIMIT_S)
        assert short.payload == messages[1 - rank][:5]

    together(lambda: swap(0), lambda: swap(1))
    assert landed == messages[::-1]
    for mesh in meshes:
        mesh.close()


def test_who_waits_while_another_moves_is_told_of_the_own_message_first(trio: list[Mesh]) -> None:
    """Of two threads one moves the bytes of both, and what it waits for may depend on the other."""
    first, second = trio[0].receive(1, 0, room(5)), trio[0].receive(2, 0, room(5))
    with ThreadPoolExecutor(2) as threads:
        moving = threads.submit(trio[0].wait, first, LIMIT_S)
        time.sleep(0.2)  # so that it moves before the other waits
        waiting = threads.submit(trio[0].wait, second, LIMIT_S)
        time.sleep(0.2)
        trio[2].send(CALL, 0, 0, data(5))
        try:
            waiting.result(LIMIT_S / 4)
            assert not moving.done()
        finally:
            trio[1].send(CALL, 0, 0, data(5))
        moving.result(LIMIT_S)


def test_nobody_reads_what_the_thread_that_moves_is_reading() -> None:
    """The first of eight parts has come, and the head of the next message behind it."""
    ends = [socket.socketpair() for _ in range(8)]
    peer = Peer(1, [Pipe(mine) for mine, _ in ends])
    part = STRIPED_BYTES // 8
    receipts = [Receipt(0, room(STRIPED_BYTES)), Receipt(0, room(5))]
    for receipt in receipts:
        peer.ask(receipt)
    heads = [HEAD.pack(CALL, 0, size) for size in (STRIPED_BYTES, 5)]
    ends[0][1].sendall(heads[0] + bytes(part) + heads[1] + b"after")
    peer.read()
    assert not receipts[0].done
    assert not peer.staged
    for _, theirs in ends[1:]:
        theirs.sendall(bytes(part))
    peer.read()
    assert [receipt.done for receipt in receipts] == [True, True]
    for pair in ends:
        for end in pair:
            end.close()


def test_a_message_is_cut_into_as_many_parts_as_there_are_rails_if_it_is_long() -> None:
    assert list(split(STRIPED_BYTES - 1, 3)) == [(0, STRIPED_BYTES - 1)]
    parts = list(split(STRIPED_BYTES + 1, 3))
    assert [first for first, _ in parts[1:]] == [end for _, end in parts[:-1]]
    assert (parts[0][0], parts[-1][1]) == (0, STRIPED_BYTES + 1)


@pytest.mark.parametrize("patience_s", [0.0005, 0.5])
def test_what_comes_unasked_makes_way_for_what_is_asked_for(
    pair: list[Mesh], patience_s: float
) -> None:
    """A long message lies before a short one of another tag; half of it has come, or all of it."""
    long = data(LARGE)
    landing = room(LARGE)

    def sender() -> None:
        sending = pair[0].send(CALL, 1, 1, long)
        pair[0].wait(pair[0].receive(1, 3, room(0)), LIMIT_S)
        pair[0].send(CALL, 1, 2, long[:10])
        pair[0].wait(sending, LIMIT_S)

    def receiver() -> None:
        short = pair[1].receive(0, 2, room(10))
        with pytest.raises(TimeoutError):
            pair[1].wait(short, patience_s)
        pair[1].send(CALL, 0, 3, room(0))
        asked = pair[1].receive(0, 1, landing)
        for request in (short, asked):
            pair[1].wait(request, LIMIT_S)
        assert short.payload == long[:10]

    together(sender, receiver)
    assert landing == long


def test_whoever_asks_any_rank_gets_one_message_and_leaves_the_others(trio: list[Mesh]) -> None:
    anyone = trio[0].receive(None, 5, room(3))
    trio[2].send(CALL, 0, 5, memoryview(b"two"))
    trio[0].wait(anyone, LIMIT_S)
    assert (anyone.source, bytes(anyone.payload)) == (2, b"two")
    trio[1].send(CALL, 0, 5, memoryview(b"one"))
    named = trio[0].receive(1, 5, room(3))
    trio[0].wait(named, LIMIT_S)
    assert bytes(named.payload) == b"one"


def test_a_message_of_another_length_lands_elsewhere(pair: list[Mesh]) -> None:
    target = room(4)
    pair[0].send(CALL, 1, 0, memoryview(b"longer"))
    receipt = pair[1].receive(0, 0, target)
    pair[1].wait(receipt, LIMIT_S)
    assert bytes(receipt.payload) == b"longer"
    assert bytes(target) == bytes(4)


def test_threads_that_wait_for_different_messages_all_get_theirs(pair: list[Mesh]) -> None:
    """One of them moves bytes, also for what the others ask for while it sleeps."""
    tags = range(6)

    def get(tag: int) -> None:
        time.sleep(0.02 * tag)
        for number in range(20):
            receipt = pair[1].receive(0, tag, room(1))
            pair[1].wait(receipt, LIMIT_S)
            assert bytes(receipt.payload) == bytes([number])

    def put(tag: int) -> None:
        for number in range(20):
            time.sleep(0.005)
            pair[0].wait(pair[0].send(CALL, 1, tag, memoryview(bytes([number]))), LIMIT_S)

    together(*(lambda t=tag: get(t) for tag in tags), *(lambda t=tag: put(t) for tag in tags))


def test_a_rank_that_has_gone_is_lost_to_all_who_wait_for_it_alone(trio: list[Mesh]) -> None:
    anyone, gone = trio[0].receive(None, 1, room(4)), trio[0].receive(2, 0, room(1))
    trio[2].close()
    with pytest.raises(LostPeerError):
        trio[0].wait(gone, LIMIT_S)
    assert trio[0].send(CALL, 2, 0, data(1)).lost
    trio[1].send(CALL, 0, 1, memoryview(b"here"))
    trio[0].wait(anyone, LIMIT_S)
    assert bytes(anyone.payload) == b"here"


def test_what_was_sent_before_its_sender_left_still_arrives(pair: list[Mesh]) -> None:
    pair[0].send(CALL, 1, 0, memoryview(b"last"))
    pair[0].close()
    receipt = pair[1].receive(0, 0, room(4))
    pair[1].wait(receipt, LIMIT_S)
    assert bytes(receipt.payload) == b"last"


def test_closing_ends_the_waits_of_other_threads(pair: list[Mesh]) -> None:
    def wait(tag: int) -> None:
        with pytest.raises(LostPeerError):
            pair[0].wait(pair[0].receive(1, tag, room(1)), LIMIT_S)

    def close() -> None:
        time.sleep(0.2)
        pair[0].close()

    begin = time.monotonic()
    together(lambda: wait(0), lambda: wait(1), close)
    assert time.monotonic() - begin < LIMIT_S / 2


def test_a_stranger_who_connects_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 listens; somebody else is there before rank 1, and says something else."""
    monkeypatch.setenv(rails.VARIABLES[0], "lo")
    store = HashStore()

    def listen() -> Mesh:
        return meet(store, 0, 2, [0, 1], LIMIT_S)

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(listen)
        while not store.check(["sockets/0"]):
            time.sleep(0.01)
        place = tuple(json.loads(store.get("sockets/0"))["places"][0])
        with socket.create_connection(place) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(20))
            second = meet(store, 1, 2, [0, 1], LIMIT_S)
            mesh = first.result(LIMIT_S)
    second.send(CALL, 0, 0, memoryview(b"hello"))
    receipt = mesh.receive(1, 0, room(5))
    mesh.wait(receipt, LIMIT_S)
    assert bytes(receipt.payload) == b"hello"
    for one in (mesh, second):
        one.close()


def test_ranks_with_different_numbers_of_rails_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    store = HashStore()
    monkeypatch.setenv(rails.VARIABLES[0], "lo")

    def alone() -> None:
        with pytest.raises(LostContactError, match="rank 5 did not connect"):
            meet(store, 0, 2, [4, 5], 1.0)

    first = threading.Thread(target=alone)
    first.start()
    while not store.check(["sockets/0"]):
        time.sleep(0.01)
    monkeypatch.setenv(rails.VARIABLES[0], "lo,lo")
    with pytest.raises(SteptimeError, match="rank 5 has 2 rails and rank 4 has 1"):
        meet(store, 1, 2, [4, 5], LIMIT_S)
    first.join()


def test_a_rank_that_may_open_no_more_files_is_told_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setenv(rails.VARIABLES[0], "lo")
    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(SteptimeError, match=r"rank 4 .*2 ranks \(Too many open files\).*ulimit -n"):
        meet(HashStore(), 0, 2, [4, 5], LIMIT_S)


def test_rails_are_those_that_the_environment_names() -> None:
    both = {"STEPTIME_SOCKET_IFNAME": "lo, lo", "GLOO_SOCKET_IFNAME": "lo"}
    assert rails.addresses(both) == ["127.0.0.1", "127.0.0.1"]
    assert rails.addresses({"GLOO_SOCKET_IFNAME": "lo"}) == ["127.0.0.1"]
    assert rails.addresses({"MASTER_ADDR": "127.0.0.1"}) == ("127.0.0.1",)
    with pytest.raises(UsageError, match=r"eth77.*it has .*lo"):
        rails.addresses({"STEPTIME_SOCKET_IFNAME": "lo,eth77"})
