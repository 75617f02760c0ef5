"""The operations of torch.distributed on tensors of any strides, made of those of an Engine.

Each reads its tensors only when its turn in the group's lane has come.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from steptime.backend.engine import Engine
from steptime.backend.flatten import flatten, parts, restore
from steptime.backend.host import Call, Kind
from steptime.backend.reduction import Reduction

Operation = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function of this module and its arguments after the engine."""


def barrier(engine: Engine, call: Call) -> None:
    """Return when all ranks are here."""
    engine.barrier(call)


def all_reduce(engine: Engine, call: Call, tensor: Tensor, op: Reduction) -> None:
    """Reduce ``tensor`` in place."""
    vector = flatten(tensor)
    engine.all_reduce(call, vector, op)
    restore(tensor, vector)


def all_reduce_sparse(engine: Engine, call: Call, tensor: Tensor) -> None:
    """Sum sparse tensors (COO), in place: all ranks gather the entries of all and add them up."""
    own = tensor.detach().coalesce()
    count = torch.tensor([own.values().shape[0]])
    counts = [torch.empty_like(count) for _ in range(engine.ranks)]
    engine.all_gather(call, counts, count)
    # (entries, sparse dims) and (entries, dense dims…)
    gathered = [
        _gather_rows(engine, rows, [int(count) for count in counts])
        for rows in (own.indices().T, own.values())
    ]
    total = torch.sparse_coo_tensor(gathered[0].T, gathered[1], tensor.shape)
    with torch.no_grad():
        tensor.copy_(total.coalesce())


def _gather_rows(engine: Engine, rows: Tensor, counts: Sequence[int]) -> Tensor:
    """The rows of all ranks, of which rank i has ``counts[i]``."""
    outputs = [rows.new_empty((count, *rows.shape[1:])) for count in counts]
    all_gather_uneven(engine, Call.of(Kind.ALL_TO_ALL, rows.dtype, 0), outputs, rows)
    return torch.cat(outputs)


def broadcast(engine: Engine, call: Call, tensor: Tensor, root: int) -> None:
    """Copy the tensor of ``root`` into the others'."""
    vector = flatten(tensor)
    engine.broadcast(call, vector, root)
    if engine.rank != root:
        restore(tensor, vector)


def reduce(engine: Engine, call: Call, tensor: Tensor, root: int, op: Reduction) -> None:
    """Reduce into the tensor of ``root``."""
    vector = flatten(tensor)
    engine.reduce(call, vector, root, op)
    if engine.rank == root:
        restore(tensor, vector)


def premultiplied(
    engine: Engine,
    factor: float | Tensor,
    operation: Callable[..., None],
    call: Call,
    tensor: Tensor,
    other: Tensor | Sequence[Tensor] | int | Reduction,
    *rest: Any,
) -> None:
    """A reduction of this module of what each rank multiplies by its factor first.

    What is but an input keeps its values.
    """
    if operation is all_reduce or (operation is reduce and engine.rank == other):
        tensor.data.mul_(factor)
    elif operation is reduce:
        tensor = tensor.data * factor
    elif isinstance(other, Tensor):
        other = other.data * factor
    elif isinstance(other, Sequence):
        other = [one.data * factor for one in other]
    operation(engine, call, tensor, other, *rest)


def all_gather(engine: Engine, call: Call, outputs: Sequence[Tensor], tensor: Tensor) -> None:
    """Fill ``outputs[i]`` with the tensor of rank i."""
    vectors = [flatten(output) for output in outputs]
    engine.all_gather(call, vectors, flatten(tensor))
    _restore_all(outputs, vectors)


def all_gather_uneven(
    engine: Engine, call: Call, outputs: Sequence[Tensor], tensor: Tensor
) -> None:
    """Fill ``outputs[i]`` with the tensor of rank i, which may differ in size."""
    vectors = [flatten(output) for output in outputs]
    engine.all_to_all(call, vectors, [flatten(tensor)] * engine.ranks)
    _restore_all(outputs, vectors)


def all_gather_single(engine: Engine, call: Call, output: Tensor, tensor: Tensor) -> None:
    """Fill ``output`` with the tensors of all ranks, concatenated."""
    vector = flatten(output)
    engine.all_gather(call, parts(vector, [tensor.numel()] * engine.ranks), flatten(tensor))
    restore(output, vector)


def reduce_scatter(
    engine: Engine, call: Call, output: Tensor, inputs: Sequence[Tensor], op: Reduction
) -> None:
    """Fill ``output`` with the reduction of everyone's ``inputs[rank]``."""
    vector = flatten(output)
    engine.reduce_scatter(call, vector, [flatten(tensor) for tensor in inputs], op)
    restore(output, vector)


def reduce_scatter_uneven(
    engine: Engine,
    calls: Sequence[Call],
    output: Tensor,
    inputs: Sequence[Tensor],
    op: Reduction,
) -> None:
    """``reduce_scatter`` with inputs of different sizes: one reduce to each rank."""
    for root, (call, tensor) in enumerate(zip(calls, inputs, strict=True)):
        vector = flatten(tensor).clone()
        engine.reduce(call, vector, root, op)
        if root == engine.rank:
            output.data.copy_(vector.view(output.shape))


def reduce_scatter_single(
    engine: Engine, call: Call, output: Tensor, tensor: Tensor, op: Reduction
) -> None:
    """Fill ``output`` with this rank's part of the reduction of ``tensor``."""
    vector = flatten(output)
    inputs = parts(flatten(tensor), [output.numel()] * engine.ranks)
    engine.reduce_scatter(call, vector, inputs, op)
    restore(output, vector)


def gather(
    engine: Engine, call: Call, outputs: Sequence[Tensor] | None, tensor: Tensor, root: int
) -> None:
    """Fill ``outputs[i]`` of ``root`` with the tensor of rank i."""
    if outputs is None:
        engine.gather(call, None, flatten(tensor), root)
        return
    vectors = [flatten(output) for output in outputs]
    engine.gather(call, vectors, flatten(tensor), root)
    _restore_all(outputs, vectors)


def scatter(
    engine: Engine, call: Call, output: Tensor, inputs: Sequence[Tensor] | None, root: int
) -> None:
    """Fill ``output`` of rank i with ``inputs[i]`` of ``root``."""
    vector = flatten(output)
    vectors = None if inputs is None else [flatten(tensor) for tensor in inputs]
    engine.scatter(call, vector, vectors, root)
    restore(output, vector)


def all_to_all(
    engine: Engine, call: Call, outputs: Sequence[Tensor], inputs: Sequence[Tensor]
) -> None:
    """Fill ``outputs[i]`` with rank i's ``inputs[rank]``, where ``rank`` is this rank."""
    vectors = [flatten(output) for output in outputs]
    engine.all_to_all(call, vectors, [flatten(tensor) for tensor in inputs])
    _restore_all(outputs, vectors)


def all_to_all_single(
    engine: Engine,
    call: Call,
    output: Tensor,
    tensor: Tensor,
    received: Sequence[int],
    sent: Sequence[int],
) -> None:
    """``all_to_all`` whose parts are consecutive in one output and in one input.

    ``received`` and ``sent``: the elements from and to each rank.
    """
    vector = flatten(output)
    engine.all_to_all(call, parts(vector, received), parts(flatten(tensor), sent))
    restore(output, vector)


def send(engine: Engine, call: Call, tensor: Tensor, to: int, tag: int) -> None:
    """Send a message."""
    engine.send(call, flatten(tensor), to, tag)


def try_send(
    engine: Engine, call: Call, tensor: Tensor, to: int, tag: int
) -> bool | Callable[[], None]:
    """As the engine's."""
    return engine.try_send(call, flatten(tensor), to, tag)


def recv(engine: Engine, call: Call, tensor: Tensor, source: int | None, tag: int) -> int:
    """Receive a message; returns the rank that sent it."""
    vector = flatten(tensor)
    sender = engine.recv(call, vector, source, tag)
    restore(tensor, vector)
    return sender


def in_turn(engine: Engine, operations: Sequence[Operation]) -> None:
    """Run several operations, one after another."""
    for operation, arguments in operations:
        operation(engine, *arguments)


def _restore_all(tensors: Sequence[Tensor], vectors: Sequence[Tensor]) -> None:
    for tensor, vector in zip(tensors, vectors, strict=True):
        restore(tensor, vector)
