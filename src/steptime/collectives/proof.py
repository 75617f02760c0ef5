"""Proof: a schedule executed on symbols, which finds everything that makes its result wrong."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Flags, Ints, Longs
from steptime.collectives.collective import NOTHING, Contents
from steptime.collectives.messages import firsts, messages
from steptime.collectives.schedule import Round, Schedule
from steptime.errors import UsageError

_MAX_FINDINGS = 20
_MAX_CELLS = 1 << 26  # of a Contents
_BYTES_PER_CELL = 32  # at the peak, when the post-condition is written out
_NEVER = -1

Places = tuple[Ints, Ints]
"""Slots, as an array of ranks and one of slots."""


@dataclass(frozen=True)
class Finding:
    """An error in a schedule: ``rank``'s ``chunk`` (its slot), in ``round``, and what is wrong.

    ``round`` is -1 for what no round touched.
    """

    rank: int
    chunk: int
    round: int
    what: str

    def __str__(self) -> str:
        return f"chunk {self.chunk} of rank {self.rank} {self.what}"


@dataclass(frozen=True)
class Proof:
    """The result of proving one schedule.

    ``same_bits``: all ranks that hold the same chunk at the end reduced it in the same order (an
    operation that commutes may swap its two operands), so a floating-point result is the same to
    the bit everywhere.
    """

    findings: tuple[Finding, ...]
    rounds: int
    same_bits: bool

    @property
    def ok(self) -> bool:
        """Whether the result is right, whatever the timing of the messages."""
        return not self.findings


def prove(schedule: Schedule) -> Proof:
    """Execute ``schedule`` on symbols and compare with the collective's post-condition.

    Found are contributions missing, doubled or of another chunk; messages from or to a rank or slot
    that does not exist; and races: in one round, a rank's slot copied into while it is sent, copied
    into twice, or both copied and reduced into. (After MSCCLang's check by chunk provenance,
    extended by the races and the order of reduction.)

    Raises UsageError when the ranks and chunks are too many for the memory this takes.
    """
    cells = schedule.ranks * schedule.slots * schedule.ranks
    if cells > _MAX_CELLS:
        raise UsageError(
            f"the proof for {schedule.ranks} ranks and {schedule.slots} slots would need "
            f"{_BYTES_PER_CELL * cells / 2**30:.1f} GiB: verify fewer ranks"
        )
    state = _State(schedule)
    findings: list[Finding] = []
    rounds = 0
    for number, transfers in enumerate(schedule.rounds()):
        rounds += 1
        outside = list(_outside(schedule, number, transfers))
        findings += outside
        if not outside:
            findings += state.carry_out(number, transfers)
        if len(findings) >= _MAX_FINDINGS:
            break
    else:
        findings += state.unmet()
    return Proof(tuple(findings[:_MAX_FINDINGS]), rounds, not findings and state.same_bits())


def _outside(schedule: Schedule, number: int, transfers: Round) -> Iterator[Finding]:
    """Transfers from or to ranks or slots that do not exist."""
    for end, start in (("src", "first"), ("dst", "into")):
        rank = transfers[end]
        last = transfers[start] + transfers["count"] - 1
        wrong = (rank < 0) | (rank >= schedule.ranks)
        for row in transfers[wrong]:
            what = f"is no rank: there are ranks 0 to {schedule.ranks - 1}"
            yield Finding(int(row[end]), int(row[start]), number, what)
        wrong = (transfers[start] < 0) | (last >= schedule.slots)
        for row in transfers[wrong]:
            what = f"slots {row[start]} to {row[start] + row['count'] - 1} are not all among the "
            what += f"{schedule.slots} slots of rank {row[end]}"
            yield Finding(int(row[end]), int(row[start]), number, what)


class _State:
    """What every slot holds and must hold, how it was reduced, and in which round last written."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.holds = _contents(schedule, after=False)
        self.required = _contents(schedule, after=True)
        shape = self.holds.index.shape
        # What a slot was made of, as a hash: of a contribution a random number, of a reduction
        # a function of its operands that is symmetric but not associative.
        origins = np.random.default_rng(0).integers(0, 2**63, shape, dtype=np.uint64)
        self.made_of = np.where(self.holds.index == NOTHING, np.uint64(0), origins)
        self.written = np.full(shape, _NEVER, np.int32)

    def carry_out(self, number: int, transfers: Round) -> Iterator[Finding]:
        """Do one round: all ranks send what they hold at its beginning, then receive."""
        source = _each_slot(transfers, "src", "first")
        target = _each_slot(transfers, "dst", "into")
        reduce = np.repeat(transfers["reduce"], transfers["count"])
        yield from self._races(number, source, target, reduce)
        yield from self._nothing_sent(number, source, target)
        index, counts = self.holds.index[source], self.holds.counts[source]
        made_of = self.made_of[source]
        copied = _where(target, ~reduce)
        self.holds.index[copied], self.holds.counts[copied] = index[~reduce], counts[~reduce]
        self.made_of[copied] = made_of[~reduce]
        for layer in _layers(transfers, target, reduce, self.schedule.slots):
            at = _where(target, layer)
            yield from self._mixed(number, at, index[layer])
            self.holds.counts[at] += counts[layer]
            self.made_of[at] = _mixed_hash(self.made_of[at] + made_of[layer])
        self.written[target] = number

    def _races(
        self, number: int, source: Places, target: Places, reduce: Flags
    ) -> Iterator[Finding]:
        copied_into, reduced_into = _where(target, ~reduce), _where(target, reduce)
        copies, reductions, sends = (self._count(p) for p in (copied_into, reduced_into, source))
        for wrong, what in (
            (copies > 1, "is copied into twice in one round: which copy stays is open"),
            ((copies > 0) & (reductions > 0), "is copied into and reduced into in one round"),
            ((copies > 0) & (sends > 0), "is sent while it is copied into: a race"),
        ):
            for rank, slot in np.argwhere(wrong):
                yield Finding(int(rank), int(slot), number, what)

    def _count(self, places: Places) -> Longs:
        """How often each slot occurs in ``places``, shape (ranks, slots)."""
        shape = self.holds.index.shape
        flat = places[0].astype(np.intp) * shape[1] + places[1]
        return np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape)

    def _nothing_sent(self, number: int, source: Places, target: Places) -> Iterator[Finding]:
        for at in np.flatnonzero(self.holds.index[source] == NOTHING):
            rank, slot = int(source[0][at]), int(source[1][at])
            yield Finding(rank, slot, number, f"is sent to rank {target[0][at]} and holds nothing")

    def _mixed(self, number: int, at: Places, arriving: Ints) -> Iterator[Finding]:
        held = self.holds.index[at]
        for wrong in np.flatnonzero((held != arriving) & (arriving != NOTHING)):
            what = (
                f"holds nothing that chunk {arriving[wrong]} could be reduced into"
                if held[wrong] == NOTHING
                else f"holds chunk {held[wrong]} and gets chunk {arriving[wrong]} reduced into it"
            )
            yield Finding(int(at[0][wrong]), int(at[1][wrong]), number, what)

    def unmet(self) -> Iterator[Finding]:
        """The violations of the post-condition, each with the round that wrote there last."""
        required = self.required
        wanted = required.index != NOTHING
        counts = self.holds.counts
        if self.schedule.collective.at_least_once:
            counts = np.minimum(counts, 1)
        wrong_chunk = wanted & (self.holds.index != required.index)
        wrong_counts = wanted & ~wrong_chunk & (counts != required.counts).any(axis=2)
        for rank, slot in np.argwhere(wrong_chunk | wrong_counts):
            if wrong_chunk[rank, slot]:
                held = self.holds.index[rank, slot]
                holds = "nothing" if held == NOTHING else f"chunk {held}"
                what = f"ends with {holds} instead of chunk {required.index[rank, slot]}"
            else:
                what = _difference(counts[rank, slot], required.counts[rank, slot])
            yield Finding(int(rank), int(slot), int(self.written[rank, slot]), what)

    def same_bits(self) -> bool:
        """Whether no two ranks end with the same chunk reduced in different orders."""
        if self.schedule.collective.at_least_once:
            return True  # there are no bits: only that a contribution arrived matters
        wanted = self.required.index != NOTHING
        made = self.made_of[wanted]
        counts = self.holds.counts[wanted]
        order = np.lexsort((made, self.holds.index[wanted]))
        index, made, counts = self.holds.index[wanted][order], made[order], counts[order]
        same_chunk = (index[1:] == index[:-1]) & (counts[1:] == counts[:-1]).all(axis=1)
        return bool((made[1:] == made[:-1])[same_chunk].all())


def _contents(schedule: Schedule, *, after: bool) -> Contents:
    """The pre-condition on the vector's slots, or the post-condition on the result's."""
    collective = schedule.collective
    condition = collective.after if after else collective.before
    rank, slot, origin, index = condition(schedule.ranks, schedule.chunks, schedule.root).T
    contents = Contents.empty(schedule.ranks, schedule.slots, schedule.ranks)
    slot = slot + schedule.result if after else slot
    contents.index[rank, slot] = index
    contents.counts[rank, slot, origin] = 1
    return contents


def _each_slot(transfers: Round, end: str, start: str) -> Places:
    """All slots at one end of the transfers, in their order."""
    count = transfers["count"]
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(transfers[end], count), np.repeat(transfers[start], count) + within


def _where(places: Places, chosen: NDArray[Any]) -> Places:
    return places[0][chosen], places[1][chosen]


def _layers(transfers: Round, target: Places, reduce: Flags, slots: int) -> Iterator[Longs]:
    """Batches of reductions in which no slot occurs twice, in the order of the messages."""
    order = np.repeat(messages(transfers).of, transfers["count"])
    left = np.flatnonzero(reduce)
    left = left[np.argsort(order[left], kind="stable")]
    slot = target[0].astype(np.intp) * slots + target[1]
    while left.size:
        first = firsts(slot[left], int(slot.max()) + 1)
        yield left[first]
        left = left[~first]


def _difference(counts: NDArray[np.int16], required: NDArray[np.int16]) -> str:
    """The missing and the surplus contributions, in words."""
    missing = np.flatnonzero(counts < required)
    doubled = np.flatnonzero((counts > required) & (required > 0))
    foreign = np.flatnonzero((counts > 0) & (required == 0))
    parts = [
        f"{words} {'rank' if ranks.size == 1 else 'ranks'} {', '.join(map(str, ranks))}"
        for words, ranks in (
            ("lacks the contribution of", missing),
            ("has more than once the contribution of", doubled),
            ("has a contribution that is not asked for, of", foreign),
        )
        if ranks.size
    ]
    return "; ".join(parts)


def _mixed_hash(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64 bits (splitmix64; Steele, Lea and Flood 2014)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
