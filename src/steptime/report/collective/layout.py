"""Where the ranks stand in the picture of a schedule: on a circle, in a tree, or host by host."""

from collections.abc import Mapping

import numpy as np

from steptime.collectives import Schedule
from steptime.report.collective.panel import Panel

Places = list[tuple[float, float]]
"""Column and row of each rank; on a circle, the point of the unit circle."""


def layout(shown: Panel) -> tuple[str, Places]:
    """The kind of layout, ``hosts``, ``tree`` or ``circle``, and the place of each rank.

    Ranks stand host by host when the algorithm asks for the hosts, and on a cluster where they are
    on several. They stand in a tree when the messages form one, or those of a pipeline's first
    block do; a mere chain is no tree. All others stand on a circle, rank 0 at the top.
    """
    schedule = shown.schedule
    if "hosts" in shown.algorithm.takes or (shown.timeline and len(set(schedule.hosts)) > 1):
        return "hosts", _by_host(schedule.hosts)
    pipeline = [range(1)] if "blocks" in shown.algorithm.takes else []
    for chunks in (range(schedule.slots), *pipeline):
        neighbours = _neighbours(schedule, chunks)
        levels = _levels(neighbours, schedule.root)
        edges = sum(map(len, neighbours.values())) // 2
        spans = edges == schedule.ranks - 1 == len(levels) - 1
        if spans and max(levels.values()) <= max(2, schedule.ranks // 2):
            return "tree", _tree(neighbours, levels, schedule.root)
    angles = 2 * np.pi * np.arange(schedule.ranks) / schedule.ranks - np.pi / 2
    return "circle", list(zip(np.cos(angles).tolist(), np.sin(angles).tolist(), strict=True))


def two_trees(schedule: Schedule) -> list[int]:
    """Of each slot of the vector the tree, 0 or 1, that it travels, where the slots travel two.

    Empty for all other schedules.
    """
    travelled: list[set[tuple[int, int]]] = [set() for _ in range(schedule.slots)]
    for transfers in schedule.rounds():
        for src, dst, first, into, count, _ in transfers.tolist():
            if src != dst:
                for slot in {*range(first, first + count), *range(into, into + count)}:
                    travelled[slot].add((min(src, dst), max(src, dst)))
    trees = list(dict.fromkeys(map(frozenset, travelled)))
    if len(trees) != 2 or any(len(tree) != schedule.ranks - 1 for tree in trees):
        return []
    for tree in trees:
        neighbours: dict[int, set[int]] = {rank: set() for rank in range(schedule.ranks)}
        for one, other in tree:
            neighbours[one].add(other)
            neighbours[other].add(one)
        if len(_levels(neighbours, schedule.root)) < schedule.ranks:
            return []
    return [trees.index(frozenset(edges)) for edges in travelled]


def _neighbours(schedule: Schedule, chunks: range) -> dict[int, set[int]]:
    """Between which ranks any of ``chunks`` travels."""
    neighbours: dict[int, set[int]] = {rank: set() for rank in range(schedule.ranks)}
    for transfers in schedule.rounds():
        end = transfers["first"] + transfers["count"]
        travels = (transfers["first"] < chunks.stop) & (end > chunks.start)
        moved = transfers[travels & (transfers["src"] != transfers["dst"])]
        for src, dst in zip(moved["src"].tolist(), moved["dst"].tolist(), strict=True):
            neighbours[src].add(dst)
            neighbours[dst].add(src)
    return neighbours


def _by_host(hosts: tuple[int, ...]) -> Places:
    rows = {host: row for row, host in enumerate(dict.fromkeys(hosts))}
    return [(float(hosts[:rank].count(host)), float(rows[host])) for rank, host in enumerate(hosts)]


def _levels(neighbours: Mapping[int, set[int]], root: int) -> dict[int, int]:
    """How far each rank is from the root, breadth first, of those that can be reached."""
    levels, edge = {root: 0}, [root]
    while edge:
        rank = edge.pop(0)
        for other in sorted(neighbours[rank] - levels.keys()):
            levels[other] = levels[rank] + 1
            edge.append(other)
    return levels


def _tree(neighbours: Mapping[int, set[int]], levels: Mapping[int, int], root: int) -> Places:
    """Leaves side by side, every other rank above the middle of its children."""
    columns: dict[int, float] = {}
    leaves = 0
    stack = [(root, False)]
    while stack:
        rank, done = stack.pop()
        children = sorted(n for n in neighbours[rank] if levels[n] > levels[rank])
        if not children:
            columns[rank] = leaves
            leaves += 1
        elif done:
            columns[rank] = (columns[children[0]] + columns[children[-1]]) / 2
        else:
            stack += [(rank, True), *((child, False) for child in reversed(children))]
    return [(columns[rank], float(levels[rank])) for rank in range(len(levels))]
