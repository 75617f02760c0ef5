"""Chakra traces as JSON: PyTorch's execution trace, and a graph of the workload's nodes.

PyTorch's (schema 1.0.2-chakra.0.0.4 and those before and after it) tells each call with its sizes
and its group, and no time: of it there are the calls alone. A workload graph tells what each node
took and what it follows, and no size: its collectives take the time that they took.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from steptime.errors import UsageError
from steptime.files import reading
from steptime.limits import MOST_SECONDS
from steptime.program import Collective, Compute, Op, Program, Wait
from steptime.program.chakra.foreign import Mesh
from steptime.program.chakra.mesh import mesh
from steptime.program.check import check
from steptime.record.traces.document import Document
from steptime.record.traces.naming import elements, item_bytes, kind_of, vector_elements

_GRAPH, _NODES, _INIT = "workload_graph", "nodes", "## process_group:init ##"
_CALL = "record_param_comms"


class _GraphNode(msgspec.Struct):
    """A node of a workload graph; ``runtime`` in microseconds."""

    id: int = msgspec.field(name="Id")
    name: str = msgspec.field(name="Name")
    data_deps: Sequence[int] = ()
    runtime: float = 0.0
    is_cpu_op: bool = False


class _Values(msgspec.Struct):
    """What goes into a node, or comes out."""

    values: Any = ()
    shapes: Any = ()
    types: Any = ()


class _Node(msgspec.Struct):
    """A node of PyTorch's execution trace."""

    id: int
    name: str
    inputs: Any = None
    outputs: Any = None


def is_chakra_json(path: Path) -> bool:
    """Whether a file is JSON of one of these; one that cannot be read is none."""
    document = Document(path)
    try:
        keys = document.keys
    except UsageError:
        return False
    return _GRAPH in keys or (_NODES in keys and "schema" in keys)


def read_chakra_json(path: Path) -> tuple[Program, str]:
    """The program of one rank's file, and in half a sentence what it lacks.

    Of a group of several ranks all are taken to do what this one does. Raises UsageError where the
    file is not whole, or its groups do not fit one mesh of ranks.
    """
    document, name = Document(path), path.name.partition(".")[0]
    with reading(path, "Chakra trace"):
        if _GRAPH in document.keys:
            ops = list(_graph_ops(document.value(_GRAPH, list[_GraphNode])))
            program = _program(name, {"axis0": 1}, ops)
            return program, "collectives take the time they took, for their sizes are not told"
        return _of_pytorch(name, document.value(_NODES, list[_Node])), (
            "its calls alone, for no time of computing is told"
        )


def _program(name: str, axes: Mapping[str, int], ops: Sequence[Op]) -> Program:
    ranks = int(np.prod(list(axes.values())))
    program = Program(name=name, axes=axes, lists=(tuple(ops),), class_of=np.zeros(ranks, np.int32))
    check(program)
    return program


def _graph_ops(nodes: Sequence[_GraphNode]) -> Iterator[Op]:
    """The nodes in their order, each after those that it needs and that stand before it."""
    places: dict[int, int] = {}
    for place, node in enumerate(nodes):
        if node.id in places:
            raise ValueError(f"it has two nodes of the number {node.id}")
        after = tuple(sorted(places[other] for other in set(node.data_deps) if other in places))
        seconds = node.runtime / 1e6
        if not 0 <= seconds <= MOST_SECONDS:
            raise ValueError(f"its node {node.id} takes {node.runtime} us")
        stream = "cpu" if node.is_cpu_op else "compute"
        places[node.id] = place
        yield Compute(name=node.name[:120], seconds=seconds, stream=stream, after=after)


def _of_pytorch(name: str, nodes: Sequence[_Node]) -> Program:
    sizes = [size for node in nodes if node.name == _INIT for size in _group_sizes(node)]
    world = tuple(range(max(sizes, default=1)))
    axes, along = mesh(len(world), [world])
    names = list(axes)
    where = Mesh({}, len(world), axes, {world: tuple(names[i] for i in along[world])})
    found = [node for node in nodes if node.name == _CALL]
    ops: list[Op] = [op for node in found for op in _call(node, where.along[world], len(world))]
    if not ops:
        raise ValueError("it holds no call and no time, so there is nothing to simulate")
    last = tuple(range(len(ops)))
    return _program(name, axes, [*ops, Wait(name="end", after=last)])


def _group_sizes(node: _Node) -> Iterator[int]:
    """The sizes of the groups that the trace's first nodes list, as text."""
    yield from map(int, re.findall(r'"group_size\\?"\s*:\s*(\d{1,7})', str(node.inputs)))


def _call(node: _Node, group: tuple[str, ...], members: int) -> Iterator[Collective]:
    """The collective of a ``record_param_comms``; nothing of a wait, or of a message.

    Its values: tensors, sequence number, group, …, the name of the collective, …, size.
    """
    into = msgspec.convert(node.inputs, _Values)
    out_of = msgspec.convert(node.outputs or {}, _Values)
    words = [value for value in into.values if isinstance(value, str)]
    kind = next((kind for word in words if (kind := kind_of(word))), "")
    if not kind or kind in ("send", "recv"):
        return
    dtype = re.search(r"Tensor\(([^)]*)\)", f"{into.types}{out_of.types}")
    count = vector_elements(kind, _count(into.shapes), _count(out_of.shapes), members)
    yield Collective(
        name=kind,
        kind=kind,
        group=group,
        nbytes=count * (item_bytes(dtype[1]) if dtype else 0),
    )


def _count(shapes: Any) -> int:
    """The elements of all tensors in shapes, nested however deep."""
    if not isinstance(shapes, list) or not shapes:
        return 0
    if all(isinstance(size, int) for size in shapes):
        return elements(shapes)
    return sum(map(_count, shapes))
