"""Links as a list in a cluster file, each with the two nodes that it joins."""

from collections.abc import Callable
from dataclasses import dataclass

from steptime.section import Rate, Section


@dataclass(frozen=True)
class Link:
    """A link from node to node, by their numbers."""

    tail: int
    head: int
    rate: Rate


def listed_links(
    section: Section, key: str, node: Callable[[Section, str, object], int]
) -> list[Link]:
    """A link for each direction of each table of the list."""
    links = []
    for table in section.sections(key):
        both = table.has("between")
        ends = table.raw("between") if both else [table.raw("from"), table.raw("to")]
        if not isinstance(ends, list) or len(ends) != 2:
            table.refuse("between", f"is {ends!r}: it must be a list of two")
        keys = ("between", "between") if both else ("from", "to")
        tail, head = (node(table, its, end) for its, end in zip(keys, ends, strict=True))
        if tail == head:
            table.refuse("", "leads from a node to itself")
        rate = table.one_way()
        links.append(Link(tail, head, rate))
        if both:
            links.append(Link(head, tail, rate))
        table.finish()
    return links
