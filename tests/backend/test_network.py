"""Collectives over sockets, among ranks that are threads: many of them, and long vectors."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributed import HashStore  # type: ignore[attr-defined]

from steptime.backend import network
from steptime.backend.host import Call, Kind
from steptime.backend.network import NetworkGroup
from steptime.backend.reasons import Reasons
from steptime.backend.reduction import SUM
from steptime.backend.sockets import rails
from steptime.errors import SteptimeError

LIMIT_S = 60.0
LONG = 900_001  # elements: several pieces for each of three ranks, and none the same
MANY = network._FEW + 3


def on_each(ranks: int, run: Callable[[NetworkGroup], Any]) -> list[Any]:
    """What ``run`` returns on every rank of a group."""
    store = HashStore()

    def be(rank: int) -> Any:
        names = [100 + r for r in range(ranks)]
        group = NetworkGroup(store, rank, ranks, LIMIT_S, names, Reasons(store))
        try:
            return run(group)
        finally:
            group.close()

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(ranks) as threads:
        patch.setenv(rails.VARIABLES[0], "lo")
        return list(threads.map(be, range(ranks), timeout=2 * LIMIT_S))


def mine(rank: int, elements: int = LONG) -> Tensor:
    return (torch.arange(elements) % 7 + rank).float()


def call(kind: Kind, elements: int = LONG) -> Call:
    return Call.of(kind, torch.float32, elements)


@pytest.mark.parametrize("ranks", [2, 3, MANY])
def test_nobody_passes_a_barrier_before_all_have_come(ranks: int) -> None:
    arrived = []

    def run(group: NetworkGroup) -> int:
        time.sleep(0.01 * group.rank)
        arrived.append(group.rank)
        group.barrier(Call.of(Kind.BARRIER))
        return len(arrived)

    assert on_each(ranks, run) == [ranks] * ranks


@pytest.mark.parametrize("ranks", [2, 3, MANY])
def test_long_vectors_are_reduced_piece_by_piece(ranks: int) -> None:
    def run(group: NetworkGroup) -> Tensor:
        vector = mine(group.rank)
        group.all_reduce(call(Kind.ALL_REDUCE), vector, SUM)
        return vector

    total = sum((mine(rank) for rank in range(ranks)), torch.zeros(LONG))
    assert all(torch.equal(vector, total) for vector in on_each(ranks, run))


@pytest.mark.parametrize("elements", [5, 40_000, LONG])
@pytest.mark.parametrize(("ranks", "root"), [(2, 1), (3, 1), (MANY, 0)])
def test_a_broadcast_reaches_everyone_whichever_way_it_takes(
    ranks: int, root: int, elements: int
) -> None:
    def run(group: NetworkGroup) -> Tensor:
        vector = mine(group.rank, elements)
        group.broadcast(call(Kind.BROADCAST, elements), vector, root)
        return vector

    assert all(torch.equal(vector, mine(root, elements)) for vector in on_each(ranks, run))


def test_a_part_may_be_reduced_into_memory_that_is_still_to_be_sent() -> None:
    """The output lies across the inputs of two other ranks."""
    part = LONG // 3

    def run(group: NetworkGroup) -> Tensor:
        vector = mine(group.rank, 3 * part)
        inputs = list(vector.split(part))
        output = vector[part // 2 : part // 2 + part]
        group.reduce_scatter(call(Kind.REDUCE_SCATTER, part), output, inputs, SUM)
        return output

    total = mine(0, 3 * part) + mine(1, 3 * part) + mine(2, 3 * part)
    for found, expected in zip(on_each(3, run), total.split(part), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("ranks", [3, MANY])
@pytest.mark.parametrize("odd", [Kind.BARRIER, Kind.ALL_GATHER])
def test_a_rank_that_calls_something_else_is_told_to_all(ranks: int, odd: Kind) -> None:
    """Whether or not its messages go the same ways as those of the others."""
    meet_again = threading.Barrier(ranks)

    def run(group: NetworkGroup) -> str:
        vector = mine(group.rank, 3)
        with pytest.raises(SteptimeError) as raised:
            if group.rank != 1:
                group.all_reduce(call(Kind.ALL_REDUCE), mine(group.rank), SUM)
            elif odd is Kind.BARRIER:
                group.barrier(Call.of(Kind.BARRIER))
            else:
                outputs = [torch.empty(3) for _ in range(ranks)]
                group.all_gather(call(Kind.ALL_GATHER, 3), outputs, vector)
        meet_again.wait(LIMIT_S)
        return str(raised.value)

    told = on_each(ranks, run)
    assert len(set(told)) == 1
    assert "the ranks disagree in call number 1" in told[0]
    assert f"called all_reduce of float32[{LONG}]" in told[0]
    assert f"rank 101 called {odd.name.lower()}" in told[0]
