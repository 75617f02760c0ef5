"""Schedules carried out by threads as ranks, on NumPy vectors."""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from time import sleep

import numpy as np
import pytest

from steptime.collectives import algorithm, all_algorithms, schedule, send, together
from steptime.collectives.execute import execute, local_rounds, slot_offsets

DEADLINE_S = 600
LATE_S = 0.005


class Threads:
    """The transport of one of several threads; a message that is sent is copied and queued."""

    early = False

    def __init__(self, rank, queues):
        self.rank, self.queues = rank, queues

    def send(self, vector, to):
        self.queues[self.rank, to].put(vector.copy())
        return lambda: None

    def receive(self, vector, source):
        def wait():
            arrived = self.queues[source, self.rank].get(timeout=DEADLINE_S)
            assert arrived.shape == vector.shape
            vector[:] = arrived

        return wait

    def close(self):
        pass


class Background:
    """A transport whose messages leave late and land as soon as they can, behind one's back."""

    early = True

    def __init__(self, rank, queues):
        self.rank, self.queues = rank, queues
        self.threads = defaultdict(lambda: ThreadPoolExecutor(1))  # by peer: in order

    def send(self, vector, to):
        def leave():
            sleep(LATE_S * (2 - self.rank % 3))
            self.queues[self.rank, to].put(vector.copy())

        return self.threads["to", to].submit(leave).result

    def receive(self, vector, source):
        def land():
            vector[:] = self.queues[source, self.rank].get(timeout=DEADLINE_S)

        return self.threads["from", source].submit(land).result

    def close(self):
        for threads in self.threads.values():
            threads.shutdown()


def add(into, other):
    into += other


def carried_out(one, memories, reduce=add, transport=Threads):
    """Carry the schedule out on the ranks' memories, in place."""
    ranks = range(one.ranks)
    queues = {(src, dst): SimpleQueue() for src in ranks for dst in ranks}
    elements = len(memories[0])

    def rank_of(rank):
        offsets = slot_offsets(one, elements)
        memory = np.zeros(offsets[-1], memories[rank].dtype)
        memory[:elements] = memories[rank]
        rounds = local_rounds(one, rank)
        messages = transport(rank, queues)
        execute(
            rounds,
            memory,
            offsets,
            messages,
            reduce,
            lambda n: np.empty(n, memory.dtype),
        )
        messages.close()
        return memory

    with ThreadPoolExecutor(one.ranks) as pool:
        done = list(pool.map(rank_of, ranks, timeout=DEADLINE_S))
    assert all(queue.empty() for queue in queues.values())
    return done


def check(one, data, results):
    """Compare what the ranks hold with the definition of the collective."""
    kind, root, ranks = one.collective.name, one.root, one.ranks
    elements = data.shape[1]
    at = slot_offsets(one, elements)
    total = data.sum(axis=0)
    for rank, memory in enumerate(results):
        own = slice(at[rank], at[rank + 1]) if one.collective.per_rank else slice(0)
        vector = memory[:elements]
        if kind == "all_reduce" or (kind == "reduce" and rank == root):
            assert (vector == total).all()
        elif kind == "reduce_scatter":
            assert (memory[own] == total[own]).all()
        elif kind == "broadcast":
            assert (vector == data[root]).all()
        elif kind == "scatter":
            assert (memory[own] == data[root][own]).all()
        elif kind == "all_gather" or (kind == "gather" and rank == root):
            for c in range(ranks):
                assert (memory[at[c] : at[c + 1]] == data[c][at[c] : at[c + 1]]).all()
        elif kind == "all_to_all":
            padded = np.zeros((ranks, at[ranks]), data.dtype)
            padded[:, :elements] = data
            for c in range(ranks):
                arrived = memory[at[one.result + c] : at[one.result + c + 1]]
                assert (arrived == padded[c][own]).all()


@pytest.mark.parametrize("ranks", (1, 2, 3, 4, 7))
def test_every_algorithm_does_what_its_collective_says(ranks):
    generator = np.random.default_rng(ranks)
    for shipped in filter(lambda a: a.serves(ranks), all_algorithms()):
        one = schedule(shipped, ranks, root=ranks // 2, blocks=3)
        for elements in (0, 1, ranks - 1, ranks, 1000):
            data = generator.integers(-1000, 1000, (ranks, elements))
            check(one, data, carried_out(one, data))


@pytest.mark.slow
@pytest.mark.parametrize("ranks", (2, 5, 8))
def test_messages_that_arrive_a_round_early_disturb_nothing(ranks):
    generator = np.random.default_rng(ranks)
    for shipped in filter(lambda a: a.serves(ranks), all_algorithms()):
        one = schedule(shipped, ranks, root=ranks // 2, blocks=3)
        data = generator.integers(-1000, 1000, (ranks, 50))
        check(one, data, carried_out(one, data, transport=Background))


def test_what_a_round_reads_or_writes_is_not_asked_for_early():
    def there_and_back():
        yield together(send(0, 1, 0), send(1, 0, 1))
        yield send(1, 0, 0)  # into what 0 sends in the first
        yield send(1, 0, 0, reduce=True)
        yield send(1, 0, 2)
        yield send(2, 0, 1)

    one = schedule(algorithm("all_reduce", chunks=lambda: 3)(there_and_back), 3)
    assert [len(r.late) for r in local_rounds(one, 0)] == [1, 1, 0, 0, 1]
    assert [len(r.early) for r in local_rounds(one, 0)] == [0, 0, 1, 1, 0]


def test_a_rank_that_is_ahead_does_not_overwrite_what_another_still_sends():
    def rank_2_is_ahead():
        yield together(send(0, 1, 0, into=1), send(2, 0, 1))
        yield send(2, 0, 0)

    one = schedule(algorithm("all_reduce", chunks=lambda: 2)(rank_2_is_ahead), 3)
    done = carried_out(one, np.array([[1, 2], [3, 4], [5, 6]]), transport=Background)
    assert [memory.tolist() for memory in done] == [[5, 6], [3, 1], [5, 6]]


def test_ranks_end_with_the_same_bits():
    data = np.random.default_rng(0).normal(size=(7, 1000)).astype(np.float32)
    for shipped in all_algorithms():
        if shipped.collective.name == "all_reduce":
            results = carried_out(schedule(shipped, 7), data)
            assert all(np.array_equal(results[0], other) for other in results), shipped.name
            assert np.allclose(results[0], data.sum(axis=0), atol=1e-5)


def test_no_rank_leaves_a_barrier_before_the_last_has_come():
    barrier = next(a for a in all_algorithms() if a.collective.name == "barrier")
    one = schedule(barrier, 5)
    heard = [{rank} for rank in range(5)]
    for transfers in one.rounds():
        before = [set(names) for names in heard]
        for src, dst in zip(transfers["src"], transfers["dst"], strict=True):
            heard[dst] |= before[src]
    assert heard == [set(range(5))] * 5
    # Its messages have no bytes and are sent all the same.
    rounds = local_rounds(one, 0)
    assert [len(r.sends) for r in rounds] == [1, 1, 1]
    assert [len(memory) for memory in carried_out(one, np.zeros((5, 0)))] == [0] * 5


def test_what_a_rank_moves_within_its_memory():
    def inside():
        # 0 takes 1 and 1 takes 0, both as they were; slot 2 becomes a copy of slot 3.
        yield together(
            send(0, 0, 0, into=1, reduce=True),
            send(0, 0, 1, into=0, reduce=True),
            send(0, 0, 3, into=2),
        )

    one = schedule(algorithm("all_reduce", chunks=lambda: 4)(inside), 1)
    (memory,) = carried_out(one, np.array([[1, 10, 100, 1000]]))
    assert memory.tolist() == [11, 11, 1000, 1000]


def test_a_rank_reduces_in_the_order_of_the_messages():
    def three():
        yield together(
            send(2, 0, 0, reduce=True),
            send(0, 0, 1, into=0, reduce=True),
            send(1, 0, 0, 2, reduce=True),
        )

    one = schedule(algorithm("reduce", chunks=lambda: 2)(three), 3)
    order = []

    def note(into, other):
        order.append(other.tolist())
        into += other

    carried_out(one, np.array([[1, 2], [30, 40], [500, 600]]), note)
    assert order == [[2], [500], [30, 40]]


def test_chunks_are_as_even_as_can_be():
    ring = next(a for a in all_algorithms() if a.name == "ring")
    for elements in range(20):
        offsets = slot_offsets(schedule(ring, 7), elements)
        lengths = np.diff(offsets)
        assert offsets[-1] == elements
        assert lengths.max() - lengths.min() <= 1


def test_slots_that_any_chunk_may_enter_are_all_as_long():
    bruck = next(a for a in all_algorithms() if a.collective.name == "all_to_all")
    assert slot_offsets(schedule(bruck, 3), 7) == tuple(3 * slot for slot in range(10))
