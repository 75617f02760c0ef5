"""Threads of one rank that call in one group: the order in which their calls come is chance."""

from collections.abc import Mapping

from steptime.check.calls import Call, Calls
from steptime.record.read import Site


def between_threads(calls: Calls, parts: Mapping[int, Call]) -> list[int]:
    """The ranks of which different threads make what stands at the lines of ``parts``.

    ``parts``: those of one call, by rank. Where they stand at different lines, and one thread makes
    the calls of one line in their group and another those of the other, either may come first.
    """
    sites = {part.site for part in parts.values()}
    found = []
    for part in parts.values():
        threads: dict[Site | None, set[int]] = {}
        for call in calls.of_key[part.key][part.rank]:
            if call.site in sites and call.thread:
                threads.setdefault(call.site, set()).add(call.thread)
        if len(threads) > 1 and not set.intersection(*threads.values()):
            found.append(part.rank)
    return sorted(found)
