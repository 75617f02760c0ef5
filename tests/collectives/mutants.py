"""Schedules with one mistake in them."""

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from steptime.collectives import TRANSFER, Round, Schedule

KINDS = ("drop", "double", "swap", "reroute", "shift", "hurry", "delay", "flip")
"""One transfer left out, doubled at once or later, swapped in part with another, sent to or taken
from another rank or slot, moved to an earlier or a later round, reduced instead of copied."""


def mutants(schedule: Schedule, kind: str, seed: int, number: int) -> Iterator[Schedule]:
    """So many schedules with one random mistake of the kind, none equal to the original."""
    generator = random.Random(seed)  # noqa: S311 - for tests
    original = list(schedule.rounds())
    if not original:
        return
    for _ in range(number):
        rounds = [t.copy() for t in original]
        _spoil(rounds, kind, schedule, generator)
        if [t.tolist() for t in rounds] != [t.tolist() for t in original]:
            yield replace(schedule, generate=lambda rounds=rounds: iter(rounds))


def _spoil(rounds: list[Round], kind: str, schedule: Schedule, generator: random.Random) -> None:
    at = generator.randrange(len(rounds))
    which = generator.randrange(rounds[at].size)
    transfer = rounds[at][which : which + 1].copy()
    if kind in ("drop", "hurry", "delay"):
        rounds[at] = np.delete(rounds[at], which)
    if kind == "double":
        _insert(rounds, min(at + generator.randrange(2), len(rounds) - 1), transfer)
    elif kind == "hurry" and at:
        _insert(rounds, generator.randrange(at), transfer)
    elif kind == "delay":
        if at + 1 == len(rounds):
            rounds.append(np.empty(0, TRANSFER))
        _insert(rounds, generator.randrange(at + 1, len(rounds)), transfer)
    elif kind == "swap":
        other = generator.randrange(len(rounds))
        place = generator.randrange(rounds[other].size)
        for name in generator.choice((["src"], ["dst"], ["first"], ["into"], ["first", "into"])):
            taken = rounds[other][name][place].copy()
            rounds[other][name][place] = rounds[at][name][which]
            rounds[at][name][which] = taken
    elif kind == "reroute":
        rounds[at][generator.choice(("src", "dst"))][which] = generator.randrange(schedule.ranks)
    elif kind == "shift":
        name = generator.choice(("first", "into"))
        rounds[at][name][which] = generator.randrange(schedule.slots)
    elif kind == "flip":
        rounds[at]["reduce"][which] ^= True


def _insert(rounds: list[Round], at: int, transfer: Round) -> None:
    rounds[at] = np.concatenate([rounds[at], transfer])
