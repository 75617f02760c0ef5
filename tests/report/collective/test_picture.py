"""Schedules in words: the formulas say what the rounds do."""

import re

import numpy as np
import pytest

from steptime.collectives import Algorithm, algorithm_named, all_algorithms, schedule
from steptime.report.collective.picture import busy_ports, cell, phases, written_rounds

REGULAR = r"every rank r sends chunk (\S+) to (\S+), which (adds|keeps) it( to its own)?"


def value(formula: str, rank: int, number: int, ranks: int) -> int:
    """What ``r−t−1`` is for a rank in a round."""
    terms = re.findall(r"[+−]?(?:\d*[rt]|\d+)", formula)
    assert "".join(terms) == formula
    total = 0
    for term in terms:
        sign = -1 if term.startswith("−") else 1
        digits = term.strip("+−rt")
        factor = rank if "r" in term else number if "t" in term else 1
        total += sign * int(digits or 1) * factor
    return total % ranks


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("all_reduce", "ring"),
        ("reduce_scatter", "ring"),
        ("reduce_scatter", "pairwise"),
        ("all_gather", "ring"),
    ],
)
@pytest.mark.parametrize("ranks", [4, 7, 12])
def test_the_formula_of_a_regular_algorithm_gives_every_message(
    kind: str, name: str, ranks: int
) -> None:
    made = schedule(algorithm_named(kind, name), ranks)
    rounds = list(written_rounds(made))
    told = phases(made)
    assert len(told) == (2 if kind == "all_reduce" else 1)
    for phase in told:
        chunk, to, does, _ = re.fullmatch(REGULAR, phase.words).groups()
        for number in range(phase.first, phase.last + 1):
            for row in rounds[number]:
                rank = int(row["src"])
                assert value(to, rank, number, ranks) == row["dst"]
                assert value(chunk, rank, number, ranks) == row["first"]
                assert (does == "adds") == row["reduce"]


@pytest.mark.parametrize("chosen", all_algorithms(), ids=lambda a: f"{a.collective.name}-{a.name}")
def test_the_phases_cover_every_round_once(chosen: Algorithm) -> None:
    for ranks in (1, 2, 3, 8, 13):
        if chosen.serves(ranks):
            made = schedule(chosen, ranks)
            told = phases(made)
            covered = [n for phase in told for n in range(phase.first, phase.last + 1)]
            assert covered == list(range(len(made.all_rounds)))
            assert all(phase.words for phase in told)


def test_ranks_and_ranges_are_named_as_people_do() -> None:
    words = [phase.words for phase in phases(schedule(algorithm_named("reduce", "binomial"), 8))]
    assert words == [
        "each rank r of 1, 3, 5, 7 sends the whole vector to r−1, which adds it to its own",
        "each rank r of 2, 6 sends the whole vector to r−2, which adds it to its own",
        "rank 4 sends the whole vector to rank 0, which adds it to its own",
    ]
    flat = phases(schedule(algorithm_named("scatter", "flat"), 5))
    assert [(p.first, p.last, p.words) for p in flat] == [
        (0, 3, "rank 0 sends chunk t+1 to rank t+1, which keeps it")
    ]
    barrier = phases(schedule(algorithm_named("barrier", "dissemination"), 4))
    assert barrier[0].words == "every rank r signals r+1"


def test_a_cell_tells_target_range_and_what_is_done() -> None:
    made = schedule(algorithm_named("all_reduce", "circulant"), 6)
    first = next(written_rounds(made))
    assert cell(made, first[2]) == "→5 c5–1+"
    exchange = schedule(algorithm_named("all_to_all", "pairwise"), 4)
    cells = [cell(exchange, row, with_source=True) for row in next(written_rounds(exchange))]
    assert "0→0 c0⇒r0" in cells
    assert "0→1 c1⇒r0" in cells


def test_ports_in_use_count_senders_and_receivers() -> None:
    made = schedule(algorithm_named("broadcast", "binomial"), 8)
    busy = [busy_ports(transfers, 8) for transfers in made.all_rounds]
    assert np.allclose(busy, [1 / 8, 2 / 8, 4 / 8])
