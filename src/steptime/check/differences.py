"""Calls that meet and differ: in kind, reduction, dtype, size or root."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, zip_longest
from math import prod

from steptime.check.calls import Call, Calls

_SAME_SIZE = (
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "gather",
    "scatter",
)
_ROOTED = ("broadcast", "reduce", "gather", "scatter")


@dataclass(frozen=True)
class Difference:
    """The parts of one call on its ranks, by rank, and in ``what`` they differ.

    ``pairs``: of an all_to_all whose splits disagree, the ranks that disagree with one another.
    """

    what: str
    parts: Mapping[int, Call]
    pairs: Sequence[tuple[int, int]] = ()

    @property
    def begun_ns(self) -> int:
        """When the first rank came to it."""
        return min(part.issued for part in self.parts.values())

    def value(self, rank: int) -> str:
        """What a rank calls, in words, as far as it matters here."""
        if self.what == "split":
            return ", ".join(
                _split_told(self.parts[rank], *(set(pair) - {rank}))
                for pair in self.pairs
                if rank in pair
            )
        return _value(self.parts[rank], self.what)

    @property
    def odd(self) -> list[int]:
        """The ranks that do otherwise than most; all where no majority says who is wrong."""
        if self.what == "split":
            common = set(self.parts).intersection(*self.pairs)
            return sorted(common if len(self.pairs) > 1 and common else self.parts)
        values = {rank: self.value(rank) for rank in self.parts}
        (usual, times), *others = Counter(values.values()).most_common()
        if not others or times <= len(values) / 2:
            return sorted(values)
        return sorted(rank for rank, value in values.items() if value != usual)


def first_difference(calls: Calls) -> Difference | None:
    """The first call of the job whose parts differ; None where there is none."""
    found = [one for key, of in calls.of_key.items() for one in _differences(of, bool(key[2]))]
    return min(found, key=lambda one: one.begun_ns, default=None)


def _differences(of_rank: Mapping[int, Sequence[Call]], message: bool) -> Iterator[Difference]:
    if message:
        yield from _of_messages(of_rank)
        return
    for parts in zip_longest(*of_rank.values()):
        present = {part.rank: part for part in parts if part is not None}
        for what in ("kind", "ranks", "reduction", "root", "dtype", "size"):
            if len({_value(part, what) for part in present.values()} - {""}) > 1:
                yield Difference(what, present)
                return
        if pairs := _ill_split(present):
            apart = {rank: part for rank, part in present.items() if rank in set().union(*pairs)}
            yield Difference("split", apart, pairs)
            return


def _ill_split(parts: Mapping[int, Call]) -> list[tuple[int, int]]:
    """The pairs in an all_to_all of which one sends the other more or less than that expects."""

    def differ(sender: Call, receiver: Call) -> bool:
        sent, expected = sender.signature.sends, receiver.signature.receives
        if not (sent and expected):
            return False
        return _share(sender, sent, receiver.rank) != _share(receiver, expected, sender.rank)

    return [
        (one, other)
        for one, other in combinations(parts, 2)
        if differ(parts[one], parts[other]) or differ(parts[other], parts[one])
    ]


def _split_told(call: Call, other: int) -> str:
    """What the splits of a call say of another rank."""
    sends = _share(call, call.signature.sends, other)
    receives = _share(call, call.signature.receives, other)
    return f"{sends} elements for rank {other} and {receives} expected of it"


def _share(call: Call, of_ranks: Sequence[int], rank: int) -> int:
    """That of a rank of the world, in what stands there for each rank of a call's group."""
    return of_ranks[call.members.index(rank)]


def _of_messages(of_rank: Mapping[int, Sequence[Call]]) -> Iterator[Difference]:
    """The first message that is not as long as it is expected, or else of another dtype.

    Those of one tag meet in the order in which they are made. Where several tags count together,
    as on NCCL, they may be expected in another order than they are sent in: so they are compared
    as a whole before any two are.
    """
    if len(of_rank) < 2:
        return
    both = min(map(len, of_rank.values()))
    one, other = (calls[:both] for calls in of_rank.values())
    in_order = len({call.signature.tag for call in (*one, *other)}) == 1
    for what in ("size", "dtype"):
        if not in_order and sorted(_value(a, what) for a in one) == sorted(
            _value(b, what) for b in other
        ):
            continue
        for a, b in zip(one, other, strict=True):
            if _value(a, what) != _value(b, what):
                yield Difference(what, {a.rank: a, b.rank: b})
                return


def _size(call: Call) -> int:
    return sum(prod(shape) for shape in call.signature.shapes)


def _value(call: Call, what: str) -> str:
    """One property of a call in words; empty where it does not matter for its kind."""
    if what == "kind":
        return call.kind
    if what == "ranks":
        return str(list(call.makes)) if call.makes else ""
    if what == "reduction":
        return call.signature.reduction
    if what == "root":
        return f"rank {call.peer}" if call.kind in _ROOTED else ""
    if what == "dtype":
        return call.signature.dtype
    message = call.kind in ("send", "recv")
    if call.kind in _SAME_SIZE or message:
        return f"{_size(call)} elements"
    return ""
