"""Slowed links: the hosts whose messages all take longer in one run than in another.

A host whose link is slow is slow towards every other; of the others each is as fast as before
towards some. So the host is told from rates between pairs of hosts, which every run has.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from statistics import geometric_mean
from typing import Any

from steptime.runs.host_links import HostLink

LEAST = 1.5
"""A link that is slower by less is not told: rates of equal runs differ by some ten percent."""

_APART = 1.25
"""So much slower it must be than what does not cross it: else all is slower alike."""

_LEAST_BYTES = 1 << 20
"""Less than this, between two hosts, is joining and leaving."""


@dataclass(frozen=True, kw_only=True)
class SlowedLink:
    """The link of a host, or the way between two: how many times slower its messages are.

    ``fast`` and ``slow``: bytes/s of its messages in the run where it is fast, and in the other.
    """

    hosts: tuple[str, ...]
    factor: float
    fast: float
    slow: float


def slowed_links(fast: Iterable[HostLink], slow: Iterable[HostLink]) -> list[SlowedLink]:
    """The links that are slower in one run, or several of it, than in another."""
    before, after = _together(fast), _together(slow)
    pairs = sorted(before.keys() & after.keys())
    ratios = {pair: before[pair].rate / after[pair].rate for pair in pairs}
    hosts = sorted(set(chain.from_iterable(pairs)))
    suspects = {
        host for host in hosts if all(ratios[pair] >= LEAST for pair in pairs if host in pair)
    }
    if not suspects:
        return []
    if len(hosts) == 2:
        return [_slowed(tuple(hosts), pairs, before, after)]
    rest = [ratios[pair] for pair in pairs if not suspects & {*pair}]
    least = min(ratios[pair] for pair in pairs if suspects & {*pair})
    if not rest or least < _APART * max(rest):
        return []
    return [
        _slowed((host,), [pair for pair in pairs if host in pair], before, after)
        for host in sorted(suspects)
    ]


def slowed_record(a: Sequence[HostLink], b: Sequence[HostLink]) -> list[dict[str, Any]]:
    """The links that are slower in B, and in A, as JSON has them: ``slower_in`` says which."""
    return [
        {"slower_in": side, **asdict(link)}
        for side, links in (("b", slowed_links(a, b)), ("a", slowed_links(b, a)))
        for link in links
    ]


def _slowed(
    hosts: tuple[str, ...],
    pairs: Sequence[tuple[str, str]],
    before: Mapping[tuple[str, str], HostLink],
    after: Mapping[tuple[str, str], HostLink],
) -> SlowedLink:
    fast, slow = (geometric_mean(side[pair].rate for pair in pairs) for side in (before, after))
    return SlowedLink(hosts=hosts, factor=fast / slow, fast=fast, slow=slow)


def _together(links: Iterable[HostLink]) -> dict[tuple[str, str], HostLink]:
    """The links of several runs by their pairs of hosts, those that carried enough."""
    found: dict[tuple[str, str], HostLink] = {}
    for link in links:
        pair = link.src, link.dst
        one = found.get(pair)
        found[pair] = HostLink(
            src=link.src,
            dst=link.dst,
            bytes=link.bytes + (one.bytes if one else 0),
            busy_s=link.busy_s + (one.busy_s if one else 0.0),
        )
    return {pair: link for pair, link in found.items() if link.bytes >= _LEAST_BYTES}
