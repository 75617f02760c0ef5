"""What functions take in several spellings: sizes, parts, numbers of ranks, hosts."""

import math
from collections.abc import Iterable

from steptime.errors import UsageError
from steptime.limits import LIMITS, MOST_BYTES, MOST_RANKS, check_within, whole_number
from steptime.units import parse_bytes, parse_percentage


def ranks_of(ranks: int | str | Iterable[int]) -> list[int]:
    """Numbers of ranks such as 8, ``2,4,8``, ``1-33`` or any of integers, once and in order.

    Raises UsageError when they are none of these.
    """
    if isinstance(ranks, str):
        counts = set(_counts(ranks))
    else:
        counts = {ranks} if isinstance(ranks, int) else set(ranks)
    if not counts or min(counts) < 1:
        raise UsageError(f"--ranks is {ranks!r}: there must be at least one rank")
    return sorted(counts)


def _counts(text: str) -> Iterable[int]:
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        least, most = (whole_number(word) for word in (first, last if dash else first))
        if least is None or most is None:
            raise UsageError(f"--ranks is {text!r}: write numbers such as 8, 2,4,8 or 1-33")
        for number in (least, most):
            check_within("--ranks", number, 0, MOST_RANKS)
        yield from range(least, most + 1)


def hosts_of(ranks: int, hosts: int | None) -> tuple[int, ...] | None:
    """The host of each rank when so many hosts share the ranks in order; None: not asked for.

    Raises UsageError when there is no host.
    """
    if hosts is None:
        return None
    check_within("--hosts", hosts, *LIMITS["hosts"])
    return tuple(rank * min(hosts, ranks) // ranks for rank in range(ranks))


def bytes_of(ranks: int, nbytes: int | str | None) -> int:
    """The bytes of the vector: by default 1 MiB for each rank.

    Raises UsageError when a text is no size.
    """
    if nbytes is None:
        return ranks << 20
    size = parse_bytes(nbytes) if isinstance(nbytes, str) else nbytes
    check_within("--bytes", size, 0, MOST_BYTES)
    return size


def part_of(part: float | str, option: str) -> float:
    """A part of something, as 0.05 or ``5%``; raises UsageError, naming the option."""
    if isinstance(part, str):
        return parse_percentage(part, option)
    if not 0 <= part < math.inf:
        raise UsageError(f"--{option} is {part}: write a part from 0 up, as 0.05 or '5%'")
    return float(part)
