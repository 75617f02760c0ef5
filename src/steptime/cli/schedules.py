"""What the verbs about schedules ask for: which ranks, on which hosts, with how many bytes."""

from steptime.errors import UsageError
from steptime.units import parse_bytes


def parse_ranks(text: str) -> list[int]:
    """Numbers of ranks such as ``8``, ``2,4,8`` or ``1-33``, each once and in order.

    Raises UsageError when the text is none of these.
    """
    counts: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"--ranks is {text!r}: write numbers such as 8, 2,4,8 or 1-33")
        counts.update(range(int(first), int(last or first) + 1))
    if not counts or min(counts) < 1:
        raise UsageError(f"--ranks is {text!r}: there must be at least one rank")
    return sorted(counts)


def hosts_of(ranks: int, hosts: int | None) -> tuple[int, ...] | None:
    """The host of each rank when so many hosts share the ranks in order; None: not asked for.

    Raises UsageError when there is no host.
    """
    if hosts is None:
        return None
    if hosts < 1:
        raise UsageError(f"--hosts is {hosts}: it must be at least 1")
    return tuple(rank * min(hosts, ranks) // ranks for rank in range(ranks))


def bytes_of(ranks: int, size: str | None) -> int:
    """The bytes of the vector: by default 1 MiB for each rank.

    Raises UsageError when the text is no size.
    """
    return ranks << 20 if size is None else parse_bytes(size)
