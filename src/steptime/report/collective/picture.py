"""Picture: a schedule in words, with a formula for whatever is regular in it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steptime.collectives.schedule import Round, Schedule

_MAX_GROUPS = 3
_MAX_LISTED = 4
_MIN_PHASE = 3  # any two rounds lie on a line


@dataclass(frozen=True)
class Phase:
    """Consecutive rounds, from ``first`` to ``last``, that one sentence describes.

    In it r is the rank that sends and t the number of the round, both counted from 0; ranks and
    chunks go on at 0 after the last. A round that is not ``regular`` is listed, not described.
    """

    first: int
    last: int
    words: str
    regular: bool


def phases(schedule: Schedule) -> list[Phase]:
    """The rounds of a schedule in words, as few sentences as its regularity allows."""
    rounds = list(written_rounds(schedule))
    formulas = [_formulas(schedule, transfers) for transfers in rounds]
    found: list[Phase] = []
    first = 0
    while first < len(rounds):
        last = _last_of_phase(formulas, first)
        following = formulas[min(first + 1, last)]
        sentences = [
            _sentence(schedule, formula, formula.steps_to(after), first)
            for formula, after in zip(formulas[first], following, strict=True)
        ]
        words = "; ".join(sentences) or _listing(schedule, rounds[first])
        found.append(Phase(first, last, words, regular=bool(sentences)))
        first = last + 1
    return found


def written_rounds(schedule: Schedule) -> Iterator[Round]:
    """The rounds as the algorithm wrote them: a range may run over the end of the vector."""
    for transfers in schedule.generate():
        moving = transfers[transfers["count"] > 0]
        if moving.size:
            yield moving


def busy_ports(transfers: Round, ranks: int) -> float:
    """The share of the ranks' ports, one to send and one to receive each, that a round uses."""
    moved = transfers[transfers["src"] != transfers["dst"]]
    return (len(np.unique(moved["src"])) + len(np.unique(moved["dst"]))) / (2 * ranks)


def cell(schedule: Schedule, row: Round, *, with_source: bool = False) -> str:
    """One transfer in a few signs: ``→1 c7+`` adds chunk 7 to that of rank 1.

    Where it arrives in another slot than it leaves, that follows: ``→1 c7⇒c3``. Chunks of the
    result are r0, r1, …, slots of scratch s0, s1, …
    """
    first, into, count = int(row["first"]), int(row["into"]), int(row["count"])
    source = _range(schedule, first, count)
    moved = source if into == first else f"{source}⇒{_range(schedule, into, count)}"
    who = str(row["src"]) if with_source else ""
    return f"{who}→{row['dst']} {moved}{'+' * bool(row['reduce'])}"


@dataclass(frozen=True)
class _Formula:
    """Some transfers of a round: numbers of source, target, first slot and slot at the target.

    A number has the base ``r`` where it is to be added to the rank that sends, modulo the number
    of ranks. One transfer alone has plain numbers; of several, ``senders`` are the sources.
    """

    senders: tuple[int, ...]
    count: int
    reduce: bool
    bases: tuple[str, ...]
    values: tuple[int, ...]
    ranks: int

    def steps_to(self, other: "_Formula") -> tuple[int, ...]:
        """By how much the numbers of another exceed those of this."""
        return tuple(
            _signed(b - a, self.ranks) if base else b - a
            for base, a, b in zip(self.bases, self.values, other.values, strict=True)
        )

    def like(self, other: "_Formula") -> bool:
        """Whether the two differ in their values alone."""
        names = ("senders", "count", "reduce", "bases")
        return all(getattr(self, name) == getattr(other, name) for name in names)


def _formulas(schedule: Schedule, transfers: Round) -> tuple[_Formula, ...]:
    """The formulas that together describe a round, or none when it would take too many."""
    to = (transfers["dst"] - transfers["src"]) % schedule.ranks
    keys = np.stack([transfers["reduce"], transfers["count"], to], axis=1)
    kinds, which = np.unique(keys, axis=0, return_inverse=True)
    if len(kinds) > _MAX_GROUPS:
        return ()
    groups = [transfers[which.reshape(-1) == kind] for kind in range(len(kinds))]
    formulas = [_formula(schedule, group) for group in groups]
    return tuple(f for f in formulas if f) if all(formulas) else ()


def _formula(schedule: Schedule, rows: Round) -> _Formula | None:
    src, first = rows["src"], rows["first"]
    into = rows["into"] - schedule.result
    if (into < 0).any():
        return None
    if len(rows) == 1:
        senders: tuple[int, ...] = ()
        numbers = [("", int(n[0])) for n in (src, rows["dst"], first, into)]
    else:
        senders = tuple(sorted(src.tolist()))
        to = ("r", int(rows["dst"][0] - src[0]) % schedule.ranks)
        slots = [_number(schedule, src, slot) for slot in (first, into)]
        numbers = [("r", 0), to, *(slot for slot in slots if slot)]
        if not all(slots):
            return None
    bases, values = zip(*numbers, strict=True)
    count, reduce = int(rows["count"][0]), bool(rows["reduce"][0])
    return _Formula(senders, count, reduce, bases, values, schedule.ranks)


def _number(
    schedule: Schedule, src: NDArray[np.int32], slots: NDArray[np.int32]
) -> tuple[str, int] | None:
    """The base and value of slots: the same for all, or as far from each rank; else None."""
    if (slots == slots[0]).all():
        return "", int(slots[0])
    apart = (slots - src) % schedule.ranks
    if schedule.chunks != schedule.ranks or (apart != apart[0]).any():
        return None
    return ("r", int(apart[0])) if slots.max() < schedule.chunks else None


def _last_of_phase(formulas: Sequence[tuple[_Formula, ...]], first: int) -> int:
    """The last round up to which each follows the one before by the same steps."""
    last, steps = first, None
    while last + 1 < len(formulas):
        here, there = formulas[last], formulas[last + 1]
        if not here or len(here) != len(there):
            break
        pairs = list(zip(here, there, strict=True))
        found = [a.steps_to(b) for a, b in pairs]
        if not all(a.like(b) for a, b in pairs) or (steps and found != steps):
            break
        last, steps = last + 1, found
    return last if last >= first + _MIN_PHASE - 1 else first


def _sentence(schedule: Schedule, formula: _Formula, steps: tuple[int, ...], start: int) -> str:
    def number(index: int) -> str:
        base, value = formula.bases[index], formula.values[index]
        return _expression(base, value, steps[index], start, schedule.ranks)

    rank, to, first, into = map(number, range(4))
    if not formula.senders:
        who, whom = f"rank {rank}", f"rank {to}"
    elif len(formula.senders) == schedule.ranks:
        who, whom = "every rank r", to
    else:
        who, whom = f"each rank r of {_listed(formula.senders)}", to
    if schedule.collective.at_least_once:
        return f"{who} signals {whom}"
    what = _chunks(schedule, formula, first)
    arrives = f" as {_chunks(schedule, formula, into)}" if into != first else ""
    if schedule.result:
        arrives = f" as chunk {into} of the result"
    if rank == to:
        return f"{who} keeps {what}{arrives}"
    it = "it" if formula.count in (1, schedule.chunks) else "them"
    then = f"adds {it} to its own" if formula.reduce else f"keeps {it}"
    return f"{who} sends {what} to {whom}, which {then}{arrives}"


def _chunks(schedule: Schedule, formula: _Formula, first: str) -> str:
    if formula.count == schedule.chunks:
        return "the whole vector"
    return f"chunk {first}" if formula.count == 1 else f"{formula.count} chunks from {first} on"


def _expression(base: str, value: int, slope: int, start: int, ranks: int) -> str:
    """``base + value + slope * (t - start)``, as short as it can be written."""
    constant = value - slope * start
    if base:
        constant = _signed(constant, ranks)
    terms = base
    if slope:
        terms += f"{'−' if slope < 0 else '+'}{'' if abs(slope) == 1 else abs(slope)}t"
    if constant or not terms:
        terms += f"{'−' if constant < 0 else '+'}{abs(constant)}"
    return terms.removeprefix("+")


def _signed(value: int, modulus: int) -> int:
    """The number nearest to 0 that is ``value`` modulo ``modulus``."""
    value %= modulus
    return value - modulus if value > modulus // 2 else value


def _listed(numbers: Sequence[int]) -> str:
    """Numbers with commas between them, long regular sequences shortened."""
    regular = len(set(np.diff(numbers).tolist())) == 1
    if len(numbers) > _MAX_LISTED and regular:
        return f"{numbers[0]}, {numbers[1]}, …, {numbers[-1]}"
    return ", ".join(map(str, numbers))


def _listing(schedule: Schedule, transfers: Round) -> str:
    """The first transfers of a round without a formula, and how many more there are."""
    shown = ", ".join(cell(schedule, row, with_source=True) for row in transfers[:_MAX_LISTED])
    more = len(transfers) - _MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown


def _range(schedule: Schedule, first: int, count: int) -> str:
    """Slots ``first`` to ``first + count - 1``, by what they are; chunks go on at chunk 0."""
    for letter, start, end in (
        ("c", 0, schedule.chunks),
        ("r", schedule.result, schedule.result + schedule.chunks),
        ("s", schedule.result + schedule.chunks, schedule.slots),
    ):
        if start <= first < end:
            last = start + (first - start + count - 1) % (end - start)
            rest = "" if count == 1 else f"–{last - start}"
            return f"{letter}{first - start}{rest}"
    return f"slot {first}"
