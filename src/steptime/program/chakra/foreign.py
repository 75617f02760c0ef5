"""Foreign Chakra traces, which other tools wrote: Chakra's schema without our attributes."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from steptime.errors import UsageError
from steptime.files import bounded_bytes, parsed_json, reading
from steptime.program.chakra.mesh import Group, mesh
from steptime.program.chakra.node import Node, NodeType
from steptime.program.chakra.write import COMM_TYPES, SIZED_BY_RANK
from steptime.program.program import MAIN, Collective, Compute, Op, Program, Recv, Send, Wait

_MOST_GROUPS = 1 << 28  # bytes of the file of groups
_KINDS = {number: kind for kind, number in COMM_TYPES.items()} | {8: "reduce_scatter"}
_NO_WORK = frozenset({NodeType.METADATA, NodeType.INVALID})


def foreign_program(folder: Path, traces: Sequence[Sequence[Node]]) -> Program:
    """The program of the nodes of every rank; groups are read from the folder's JSON file, if any.

    Raises UsageError for nodes that wait for each other or for a missing node, and for groups and
    messages that fit no mesh of ranks.
    """
    named = _named_groups(folder)
    ranks = len(traces)
    used = {_group(node, named, ranks) for nodes in traces for node in nodes if _collective(node)}
    axes, along = mesh(ranks, used)
    names = list(axes)
    where = Mesh(
        named, ranks, axes, {group: tuple(names[i] for i in along[group]) for group in along}
    )
    lists: dict[tuple[Op, ...], int] = {}
    class_of = [
        lists.setdefault(tuple(_ops(nodes, rank, where)), len(lists))
        for rank, nodes in enumerate(traces)
    ]
    return Program(
        name=folder.resolve().name,
        axes=axes,
        lists=tuple(lists),
        class_of=np.array(class_of, np.int32),
    )


@dataclass(frozen=True)
class Mesh:
    """The axes of the ranks, and the groups of the traces by name with the axes they lie along."""

    named: Mapping[str, Group]
    ranks: int
    axes: Mapping[str, int]
    along: Mapping[Group, tuple[str, ...]]

    def step(self, here: int, there: int) -> tuple[str, int]:
        """The axis, and the number of places along it, from one rank to another."""
        stride = 1
        for axis, size in self.axes.items():
            by = (there // stride - here // stride) % size
            if here - here // stride % size * stride == there - there // stride % size * stride:
                return axis, by
            stride *= size
        raise UsageError(
            f"a message from rank {here} to rank {there} lies along none of the axes that the "
            "groups have"
        )


def _collective(node: Node) -> bool:
    return node.type is NodeType.COMM_COLL and not _on_cpu(node)


def _on_cpu(node: Node) -> bool:
    """Whether it is work of the host, as is the call of a collective that runs on the device."""
    return bool(node.attributes.get("is_cpu_op"))


def _named_groups(folder: Path) -> Mapping[str, Group]:
    paths = sorted(folder.glob("*.json"))
    if not paths:
        return {}
    if len(paths) > 1:
        raise UsageError(f"{folder} has several JSON files: keep that of the groups alone")
    content = bounded_bytes(paths[0], "file of groups", _MOST_GROUPS)
    with reading(paths[0], "file of groups", 'it maps a number to ranks, as {"1": [0, 1]}'):
        found = parsed_json(content, dict[str, list[int]])
        return {name: tuple(sorted(ranks)) for name, ranks in found.items()}


def _group(node: Node, named: Mapping[str, Group], ranks: int) -> Group:
    if not all(_numbers(node, "involved_dim")):
        raise UsageError(
            f"{node.name!r} is along some dimensions of a network (involved_dim): name its ranks "
            "in a group"
        )
    name = str(node.attributes.get("pg_name", ""))
    if not name:
        return tuple(range(ranks))
    if name not in named:
        raise UsageError(f"{node.name!r} is among the group {name}, which no JSON file describes")
    group = named[name] or tuple(range(ranks))
    if group[0] < 0 or group[-1] >= ranks or len(set(group)) < len(group):
        raise UsageError(f"the group {name} has ranks that are not there, or one twice")
    return group


def _ops(nodes: Sequence[Node], rank: int, where: Mesh) -> list[Op]:
    """The nodes in topological order as ops; the step ends on the stream MAIN."""
    by_id = {node.id: node for node in nodes}
    if len(by_id) < len(nodes):
        raise UsageError("two nodes of a rank have the same number")
    ops: list[Op] = []
    ends: dict[int, set[int]] = {}  # the ops that must end for a node to have ended
    for number, others in _before(by_id).items():
        after = set[int]().union(*(ends[other] for other in others))
        op = _op(by_id[number], tuple(sorted(after)), rank, where)
        # A message leaves whether or not it is waited for, so its Recv is posted at once.
        receives = isinstance(op, Recv)
        ends[number] = {len(ops), *after} if receives else {len(ops)}
        ops.append(replace(op, after=()) if receives else op)
    awaited = {other for op in ops for other in op.after}
    left = tuple(
        place for place, op in enumerate(ops) if op.stream != MAIN and place not in awaited
    )
    return [*ops, Wait(name="end", after=left)] if left else ops


def _before(nodes: Mapping[int, Node]) -> dict[int, set[int]]:
    """What each node waits for, in topological order.

    That is its data and what controls it, where that is there. In traces of PyTorch a call controls
    what it made, also work that its data must wait for; nodes of such a rank wait for data alone.
    """
    for node in nodes.values():
        for other in node.after:
            if other not in nodes:
                raise UsageError(f"{node.name!r} waits for a node {other} that is not there")
    data = {number: set(node.after) for number, node in nodes.items()}
    both = {number: data[number] | nodes.keys() & node.controls for number, node in nodes.items()}
    for before in (both, data):
        ordered = _in_order(before)
        if len(ordered) == len(nodes):
            return {number: before[number] for number in ordered}
    stuck = next(node.name for node in nodes.values() if node.id not in set(ordered))
    raise UsageError(f"{stuck!r} waits, by way of others, for itself")


def _in_order(before: Mapping[int, set[int]]) -> list[int]:
    """The nodes in topological order, the lowest number first; without those in a circle."""
    waiting = {number: len(others) for number, others in before.items()}
    followers: dict[int, list[int]] = {number: [] for number in before}
    for number, others in before.items():
        for other in others:
            followers[other].append(number)
    ready = [number for number, count in waiting.items() if not count]
    heapq.heapify(ready)
    ordered = []
    while ready:
        ordered.append(heapq.heappop(ready))
        for follower in followers[ordered[-1]]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, follower)
    return ordered


def _op(node: Node, after: tuple[int, ...], rank: int, where: Mesh) -> Op:
    name = node.name or f"node {node.id}"
    if node.type in _NO_WORK:
        return Wait(name=name, after=after)
    if _collective(node):
        return _collective_op(node, name, after, where)
    if node.type in (NodeType.COMM_SEND, NodeType.COMM_RECV) and not _on_cpu(node):
        return _message_op(node, name, after, rank, where)
    return Compute(
        name=name,
        seconds=node.micros / 1e6 if node.micros else None,
        flops=float(_number(node, "num_ops")),
        nbytes=float(_number(node, "tensor_size")),
        stream="cpu" if _on_cpu(node) else MAIN,
        after=after,
    )


def _collective_op(node: Node, name: str, after: tuple[int, ...], where: Mesh) -> Op:
    number = _number(node, "comm_type")
    if number not in _KINDS:
        raise UsageError(f"{name!r} is a collective of no known type: {number}")
    kind = _KINDS[number]
    group = _group(node, where.named, where.ranks)
    size = _number(node, "comm_size")
    return Collective(
        name=name,
        kind=kind,
        group=where.along[group],
        nbytes=size * len(group) if kind in SIZED_BY_RANK else size,
        after=after,
    )


def _message_op(node: Node, name: str, after: tuple[int, ...], rank: int, where: Mesh) -> Op:
    sends = node.type is NodeType.COMM_SEND
    peer = _number(node, "comm_dst" if sends else "comm_src")
    if not 0 <= peer < where.ranks:
        raise UsageError(f"{name!r} is with rank {peer}, which is not there")
    axis, by = where.step(rank, peer)
    kind, stream = (Send, "send") if sends else (Recv, f"recv {axis} {by:+}")
    return kind(
        name=name,
        axis=axis,
        by=by,
        nbytes=_number(node, "comm_size"),
        tag=_number(node, "comm_tag"),
        stream=stream,
        after=after,
    )


def _number(node: Node, name: str) -> int:
    value: Any = node.attributes.get(name, 0)
    if not isinstance(value, int):
        raise UsageError(f"{name} of {node.name!r} is {value!r}, which is no count")
    return value


def _numbers(node: Node, name: str) -> tuple[Any, ...]:
    value = node.attributes.get(name, ())
    return value if isinstance(value, tuple) else ()
