"""Foreign Chakra traces, which other tools wrote: Chakra's schema without our attributes."""

import heapq
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from steptime.errors import UsageError
from steptime.files import bounded_text
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
    where = _Mesh(
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
class _Mesh:
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
    return node.type is NodeType.COMM_COLL


def _named_groups(folder: Path) -> Mapping[str, Group]:
    paths = sorted(folder.glob("*.json"))
    if not paths:
        return {}
    if len(paths) > 1:
        raise UsageError(f"{folder} has several JSON files: keep that of the groups alone")
    try:
        found = json.loads(bounded_text(paths[0], "file of groups", _MOST_GROUPS))
        return {str(name): tuple(sorted(map(int, ranks))) for name, ranks in found.items()}
    except (ValueError, TypeError, AttributeError):
        raise UsageError(
            f'{paths[0]} is no file of groups: it maps a number to ranks, as {{"1": [0, 1]}}'
        ) from None


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


def _ops(nodes: Sequence[Node], rank: int, where: _Mesh) -> list[Op]:
    """The nodes in topological order as ops; the step ends on the stream MAIN."""
    ordered = _in_order(nodes)
    place_of = {node.id: place for place, node in enumerate(ordered)}
    ops = [
        _op(node, tuple(sorted(place_of[other] for other in node.after)), rank, where)
        for node in ordered
    ]
    awaited = {other for op in ops for other in op.after}
    left = tuple(
        place for place, op in enumerate(ops) if op.stream != MAIN and place not in awaited
    )
    return [*ops, Wait(name="end", after=left)] if left else ops


def _in_order(nodes: Sequence[Node]) -> list[Node]:
    by_id = {node.id: node for node in nodes}
    if len(by_id) < len(nodes):
        raise UsageError("two nodes of a rank have the same number")
    waiting = {node.id: len(node.after) for node in nodes}
    followers: dict[int, list[int]] = {node.id: [] for node in nodes}
    for node in nodes:
        for other in node.after:
            if other not in by_id:
                raise UsageError(f"{node.name!r} waits for a node {other} that is not there")
            followers[other].append(node.id)
    ready = [number for number, count in waiting.items() if not count]
    heapq.heapify(ready)
    ordered = []
    while ready:
        ordered.append(by_id[heapq.heappop(ready)])
        for follower in followers[ordered[-1].id]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, follower)
    if len(ordered) < len(nodes):
        stuck = next(node.name for node in nodes if waiting[node.id])
        raise UsageError(f"{stuck!r} waits, by way of others, for itself")
    return ordered


def _op(node: Node, after: tuple[int, ...], rank: int, where: _Mesh) -> Op:
    name = node.name or f"node {node.id}"
    if node.type in _NO_WORK:
        return Wait(name=name, after=after)
    if _collective(node):
        return _collective_op(node, name, after, where)
    if node.type in (NodeType.COMM_SEND, NodeType.COMM_RECV):
        return _message_op(node, name, after, rank, where)
    return Compute(
        name=name,
        seconds=node.micros * 1e-6 if node.micros else None,
        flops=float(_number(node, "num_ops")),
        nbytes=float(_number(node, "tensor_size")),
        stream="cpu" if node.attributes.get("is_cpu_op") else MAIN,
        after=after,
    )


def _collective_op(node: Node, name: str, after: tuple[int, ...], where: _Mesh) -> Op:
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


def _message_op(node: Node, name: str, after: tuple[int, ...], rank: int, where: _Mesh) -> Op:
    sends = node.type is NodeType.COMM_SEND
    peer = _number(node, "comm_dst" if sends else "comm_src")
    if not 0 <= peer < where.ranks:
        raise UsageError(f"{name!r} is with rank {peer}, which is not there")
    axis, by = where.step(rank, peer)
    kind, stream = (Send, "send") if sends else (Recv, "recv")
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
