"""Sentences of findings: what a rank calls, where, and which ranks are meant."""

from collections.abc import Iterable, Sequence
from math import prod

from steptime.check.calls import MESSAGES, Call
from steptime.check.finding import CallSite, on_rank
from steptime.record.read import line_named
from steptime.words import listed

_LONGEST = 200  # characters of what an exception says


def ranks_named(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks 0 and 2`` or ``ranks 0-6``, as many as there are."""
    found = sorted(set(ranks))
    if len(found) == 1:
        return f"rank {found[0]}"
    if len(found) > 2 and found[-1] - found[0] == len(found) - 1:
        return f"ranks {found[0]}-{found[-1]}"
    return f"ranks {listed([*map(str, found)])}"


def at(place: CallSite | None) -> str:
    """`` at train.py:12``; nothing where the place is not known."""
    return f" at {line_named(place.file, place.line, place.via)}" if place and place.file else ""


def raised(kind: str, place: CallSite | None, message: str) -> str:
    """An exception, the line that it came from and the beginning of what it says."""
    return f"{kind}{at(place)}: {message[:_LONGEST]}"


def called(call: Call) -> str:
    """What a rank calls and where, as in ``all_reduce of 10 float32 at train.py:12``."""
    size = sum(prod(shape) for shape in call.signature.shapes)
    of = f" of {size} {call.signature.dtype}" if call.signature.shapes else ""
    to = ""
    if call.kind in MESSAGES and call.peer >= 0:
        to = f" {'to' if call.kind == 'send' else 'from'} rank {call.peer}"
    elif call.from_any and not call.keys:
        to = " from any rank"
    if call.key[3]:
        to += f" with tag {call.key[3]}"
    if call.kind == "new_group":
        of = f" of the {ranks_named(call.makes)}"
    if call.keys:
        of = f" of {', '.join(map(repr, call.keys))}"
    polled = ""
    if call.polls and not (call.waited or call.keys) and call.polls.site:
        polled = f", which it polls{at(on_rank(call.rank, call.polls.site))}"
    return f"{call.kind}{of}{to}{at(call.place)}{polled}"


def group_named(call: Call) -> str:
    """The group of a call by its name, and by its ranks where torch but numbered it."""
    ranks = f" of the {ranks_named(call.key[1])}" if call.group.isdecimal() else ""
    return f"the group {call.group!r}{ranks}"


def waiting_in(calls: Iterable[Call], why: str = "") -> str:
    """Who waits, and ``why``, in what: ``ranks 0 and 2 wait for it in barrier at train.py:12``."""
    found: dict[str, list[int]] = {}
    for call in calls:
        found.setdefault(called(call), []).append(call.rank)
    return listed([f"{do(ranks, 'waits')}{why} in {what}" for what, ranks in found.items()])


def do(ranks: Sequence[int], verb: str) -> str:
    """Ranks and what they do: ``rank 3 waits``, ``ranks 0 and 2 wait``."""
    one = len(set(ranks)) == 1
    plural = {"is": "are", "has": "have", "makes": "make", "does": "do", "goes": "go"}
    word = verb if one else plural.get(verb, verb.removesuffix("s"))
    return f"{ranks_named(ranks)} {word}"


def sentence(text: str) -> str:
    """With a capital letter, unless it begins with the name of a file, and a full stop."""
    first = text.partition(" ")[0].rstrip(",:")
    begin = text[:1].upper() if first.isalpha() else text[:1]
    return f"{begin}{text[1:]}{'' if text.endswith('.') else '.'}"


def places_of(calls: Sequence[Call], *before: CallSite | None) -> list[CallSite]:
    """Places, and those of calls behind them, each once, without those that are not known."""
    places = [*before, *(call.place for call in calls)]
    return list(dict.fromkeys(place for place in places if place and place.file))
