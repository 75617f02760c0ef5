"""A judge of schedules that shares nothing with the proof: numbers, moved under many timings.

Within a round, messages leave and copies land in any order; what is reduced is added when all
that the rank sends has left. A schedule is right if no timing gives a wrong number.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from steptime.collectives import Schedule

Memory = list[list[int]]
Timing = Callable[[int, int], tuple[float, float]]
"""When transfer i of n leaves and, if it is a copy, when it lands; reductions come from 1 to 2."""


def reads_first(_i: int, _n: int) -> tuple[float, float]:
    return 0, 0.5


def lands_last(_i: int, _n: int) -> tuple[float, float]:
    return 0, 2.5


def one_by_one(i: int, n: int) -> tuple[float, float]:
    return i / n, i / n


def backwards(i: int, n: int) -> tuple[float, float]:
    return one_by_one(n - 1 - i, n)


def at_random(generator: random.Random) -> Timing:
    def timing(_i: int, _n: int) -> tuple[float, float]:
        leaves = generator.random()
        return leaves, max(leaves, 2.5 * generator.random())

    return timing


def timings(seed: int) -> Iterator[Timing]:
    yield from (reads_first, lands_last, one_by_one, backwards)
    generator = random.Random(seed)  # noqa: S311 - for tests
    yield from (at_random(generator) for _ in range(4))


def is_right(schedule: Schedule, seed: int) -> bool:
    """Whether the schedule gives the right numbers under every timing tried."""
    rounds = [list(map(tuple, t.tolist())) for t in schedule.rounds()]
    slots = schedule.slots
    for transfers in rounds:
        for src, dst, first, into, count, _ in transfers:
            if not (0 <= src < schedule.ranks and 0 <= dst < schedule.ranks):
                return False
            if min(first, into) < 0 or max(first, into) + count > slots:
                return False
    return all(_right_under(schedule, rounds, timing, seed) for timing in timings(seed))


def _right_under(
    schedule: Schedule, rounds: Sequence[Sequence[Any]], timing: Timing, seed: int
) -> bool:
    generator = random.Random(seed)  # noqa: S311 - for tests
    memory, wanted = problem(schedule, generator)
    combine = int.__or__ if schedule.collective.name == "barrier" else int.__add__
    for transfers in rounds:
        _carry_out(memory, transfers, timing, combine)
    return all(memory[rank][slot] == value for (rank, slot), value in wanted.items())


def _carry_out(
    memory: Memory,
    transfers: Sequence[Any],
    timing: Timing,
    combine: Callable[[int, int], int],
) -> None:
    # The order in which one rank's arrivals are reduced is that of their messages; a sum of
    # integers does not see it.
    events = []
    for i, (*_, reduce) in enumerate(transfers):
        leaves, lands = timing(i, len(transfers))
        events.append((leaves, 2 * i, i, False))
        events.append((1 + i / len(transfers) if reduce else lands, 2 * i + 1, i, True))
    carried: dict[int, list[int]] = {}
    for _, _, i, arrives in sorted(events):
        src, dst, first, into, count, reduce = transfers[i]
        if not arrives:
            carried[i] = memory[src][first : first + count]
        elif reduce:
            for slot, value in enumerate(carried[i], into):
                memory[dst][slot] = combine(memory[dst][slot], value)
        else:
            memory[dst][into : into + count] = carried[i]


def problem(
    schedule: Schedule, generator: random.Random
) -> tuple[Memory, dict[tuple[int, int], int]]:
    """What is in the memories before, and what must be in which slots after."""
    ranks, chunks, root = range(schedule.ranks), range(schedule.chunks), schedule.root
    if schedule.collective.name == "barrier":
        return [[1 << rank] for rank in ranks], {(rank, 0): (1 << len(ranks)) - 1 for rank in ranks}

    data = [[generator.getrandbits(60) for _ in chunks] for _ in ranks]
    total = [sum(data[rank][chunk] for rank in ranks) for chunk in chunks]
    everything = [(rank, chunk) for rank in ranks for chunk in chunks]
    own = [(rank, chunk) for rank, chunk in everything if rank == chunk]
    at_root = [(root, chunk) for chunk in chunks]
    held, asked, value = {
        "all_reduce": (everything, everything, lambda _, c: total[c]),
        "reduce_scatter": (everything, own, lambda _, c: total[c]),
        "all_gather": (own, everything, lambda _, c: data[c][c]),
        "broadcast": (at_root, everything, lambda _, c: data[root][c]),
        "reduce": (everything, at_root, lambda _, c: total[c]),
        "scatter": (at_root, own, lambda _, c: data[root][c]),
        "gather": (own, at_root, lambda _, c: data[c][c]),
        "all_to_all": (everything, everything, lambda r, c: data[c][r]),
    }[schedule.collective.name]
    memory = [[generator.getrandbits(60) for _ in range(schedule.slots)] for _ in ranks]
    for rank, chunk in held:
        memory[rank][chunk] = data[rank][chunk]
    behind = len(chunks) if schedule.collective.name == "all_to_all" else 0
    return memory, {(rank, behind + chunk): value(rank, chunk) for rank, chunk in asked}
