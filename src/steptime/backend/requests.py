"""Requests: the arguments of a call of torch.distributed, checked and made into an Operation.

What one rank can see to be wrong is refused here, before any other rank is involved. Every function
raises UsageError.
"""

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from steptime.backend import operations
from steptime.backend.folding import fold
from steptime.backend.host import Call, Kind
from steptime.backend.operations import Operation
from steptime.backend.reduction import AVG, BAND, BOR, BXOR, MAX, MIN, PRODUCT, SUM, Reduction
from steptime.errors import UsageError
from steptime.world.compat import RedOpType, ReduceOp

Names = Sequence[int]
"""The global ranks of a group's members, which errors quote."""

TAGS = 1 << 30
"""Tags of messages are below it."""

_REDUCTIONS = {
    RedOpType.SUM: SUM,
    RedOpType.AVG: AVG,
    RedOpType.PRODUCT: PRODUCT,
    RedOpType.MIN: MIN,
    RedOpType.MAX: MAX,
    RedOpType.BAND: BAND,
    RedOpType.BOR: BOR,
    RedOpType.BXOR: BXOR,
}

BY_NUMBER = [_REDUCTIONS[op] for op in sorted(_REDUCTIONS, key=lambda op: hash(ReduceOp(op)))]
"""The reductions by torch's number of them, which is the hash of a ReduceOp."""


def reduction(op: ReduceOp, tensor: Tensor) -> Reduction:
    """The Reduction for a ReduceOp and the dtype of ``tensor``: of PREMUL_SUM, the sum."""
    if op.op != RedOpType.PREMUL_SUM:
        return _reduction(op.op, tensor.dtype)
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.is_sparse:
        raise UsageError(
            f"ReduceOp.PREMUL_SUM of a {tensor.layout} tensor of {tensor.dtype}: the backend "
            "steptime multiplies dense tensors of floating or complex numbers alone"
        )
    return _reduction(RedOpType.SUM, tensor.dtype)


def premultiplied(op: ReduceOp, request: Operation) -> Operation:
    """A request for a reduction, with its tensors times the factor of PREMUL_SUM, if that is asked.

    They are multiplied within the operation: whatever was asked before it is done by then.
    """
    if op.op != RedOpType.PREMUL_SUM:
        return request
    operation, arguments = request
    _, factor = op.__getstate__()  # torch has no other way to it from Python
    return operations.premultiplied, (factor, operation, *arguments)


@cache
def _reduction(op: RedOpType, dtype: torch.dtype) -> Reduction:
    if op not in _REDUCTIONS:
        raise UsageError(f"the backend steptime has no ReduceOp.{op.name}")
    found = _REDUCTIONS[op]
    try:
        probe = torch.zeros(dtype.itemsize, dtype=torch.uint8).view(dtype)
        fold(found, [probe, probe], probe)
    except (RuntimeError, TypeError) as error:  # TypeError: of complex tensors, from torch 2.15 on
        raise UsageError(
            f"torch has no ReduceOp.{op.name} of {dtype} on the CPU: convert the tensor first"
        ) from error
    return found


def barrier() -> Operation:
    """Wait for all ranks."""
    return operations.barrier, (Call.of(Kind.BARRIER, None, 0),)


def all_reduce(tensor: Tensor, op: Reduction) -> Operation:
    """Reduce over all ranks, in place; of sparse tensors, only the sum."""
    if tensor.layout == torch.sparse_coo and op == SUM:
        call = Call.of(Kind.ALL_REDUCE, tensor.dtype, tensor.numel(), -1, "sparse sum")
        return operations.all_reduce_sparse, (call, tensor)
    _check_strided(tensor)
    if not tensor.is_contiguous():
        _check_writable(tensor)
    call = Call.of(Kind.ALL_REDUCE, tensor.dtype, tensor.numel(), -1, op.name)
    return operations.all_reduce, (call, tensor, op)


def broadcast(rank: int, names: Names, tensor: Tensor, root: int) -> Operation:
    """Copy the root's tensor to all ranks."""
    _check_strided(tensor)
    if rank != root:
        _check_writable(tensor)
    call = Call.of(Kind.BROADCAST, tensor.dtype, tensor.numel(), names[root])
    return operations.broadcast, (call, tensor, root)


def reduce(rank: int, names: Names, tensor: Tensor, root: int, op: Reduction) -> Operation:
    """Reduce over all ranks, into the root's tensor."""
    _check_strided(tensor)
    if rank == root:
        _check_writable(tensor)
    call = Call.of(Kind.REDUCE, tensor.dtype, tensor.numel(), names[root], op.name)
    return operations.reduce, (call, tensor, root, op)


def all_gather(rank: int, ranks: int, outputs: Sequence[Tensor], tensor: Tensor) -> Operation:
    """Fill the outputs with the tensors of all ranks, which may differ in size."""
    _check_list("all_gather", "outputs", outputs, ranks, tensor.dtype)
    _check_writable(*outputs)
    if outputs[rank].numel() != tensor.numel():
        raise UsageError(
            f"all_gather of {tensor.numel()} elements from rank {rank} into an output of "
            f"{outputs[rank].numel()}: make the output for each rank as large as its tensor"
        )
    if any(output.numel() != tensor.numel() for output in outputs):
        call = Call.of(Kind.ALL_TO_ALL, tensor.dtype, 0)
        return operations.all_gather_uneven, (call, outputs, tensor)
    call = Call.of(Kind.ALL_GATHER, tensor.dtype, tensor.numel())
    return operations.all_gather, (call, outputs, tensor)


def all_gather_coalesced(
    rank: int, ranks: int, outputs: Sequence[Sequence[Tensor]], tensors: Sequence[Tensor]
) -> list[Operation]:
    """Fill ``outputs[i]`` with the tensors of rank i."""
    counts = [len(landing) for landing in outputs]
    if counts != [len(tensors)] * ranks:
        raise UsageError(
            f"all_gather_coalesced of {len(tensors)} tensors among {ranks} ranks into lists of "
            f"{counts}: give one list for each rank, with an output for each tensor"
        )
    landings = zip(*outputs, strict=True)
    return [all_gather(rank, ranks, *pair) for pair in zip(landings, tensors, strict=True)]


def all_gather_single(ranks: int, output: Tensor, tensor: Tensor) -> Operation:
    """Fill the output with the tensors of all ranks, concatenated."""
    _check_list("all_gather", "output", [output], 1, tensor.dtype)
    _check_strided(tensor)
    _check_writable(output)
    _check_whole("all_gather", output, tensor, ranks)
    call = Call.of(Kind.ALL_GATHER, tensor.dtype, tensor.numel())
    return operations.all_gather_single, (call, output, tensor)


def reduce_scatter(
    rank: int, ranks: int, output: Tensor, inputs: Sequence[Tensor], op: Reduction
) -> Operation:
    """Fill the output with the reduction of everyone's input for this rank."""
    _check_list("reduce_scatter", "inputs", inputs, ranks, output.dtype)
    _check_writable(output)
    if inputs[rank].numel() != output.numel():
        raise UsageError(
            f"reduce_scatter of {inputs[rank].numel()} elements for rank {rank} into an output of "
            f"{output.numel()}: make the output as large as the input of that rank"
        )
    if any(tensor.numel() != output.numel() for tensor in inputs):
        calls = [
            Call.of(Kind.REDUCE, tensor.dtype, tensor.numel(), root, op.name)
            for root, tensor in enumerate(inputs)
        ]
        return operations.reduce_scatter_uneven, (calls, output, inputs, op)
    call = Call.of(Kind.REDUCE_SCATTER, output.dtype, output.numel(), -1, op.name)
    return operations.reduce_scatter, (call, output, inputs, op)


def reduce_scatter_single(ranks: int, output: Tensor, tensor: Tensor, op: Reduction) -> Operation:
    """Fill the output with this rank's part of the reduction of one input."""
    _check_list("reduce_scatter", "output", [output], 1, tensor.dtype)
    _check_strided(tensor)
    _check_writable(output)
    _check_whole("reduce_scatter", tensor, output, ranks)
    call = Call.of(Kind.REDUCE_SCATTER, output.dtype, output.numel(), -1, op.name)
    return operations.reduce_scatter_single, (call, output, tensor, op)


def gather(names: Names, outputs: Sequence[Tensor] | None, tensor: Tensor, root: int) -> Operation:
    """Fill the root's outputs with the tensors of all ranks, all of one size."""
    _check_strided(tensor)
    if outputs is not None:
        _check_list("gather", "outputs", outputs, len(names), tensor.dtype, tensor.numel())
        _check_writable(*outputs)
    call = Call.of(Kind.GATHER, tensor.dtype, tensor.numel(), names[root])
    return operations.gather, (call, outputs, tensor, root)


def gather_single(names: Names, output: Tensor | None, tensor: Tensor, root: int) -> Operation:
    """Fill the root's output with the tensors of all ranks, concatenated."""
    if output is None:
        return gather(names, None, tensor, root)
    _check_whole("gather", output, tensor, len(names))
    if not output.is_contiguous():
        raise UsageError("gather into one output that is not contiguous: make it contiguous first")
    return gather(names, output.view(len(names), tensor.numel()).unbind(), tensor, root)


def scatter(names: Names, output: Tensor, inputs: Sequence[Tensor] | None, root: int) -> Operation:
    """Fill everyone's output with its part of the root's inputs, all of one size."""
    _check_strided(output)
    _check_writable(output)
    if inputs is not None:
        _check_list("scatter", "inputs", inputs, len(names), output.dtype, output.numel())
    call = Call.of(Kind.SCATTER, output.dtype, output.numel(), names[root])
    return operations.scatter, (call, output, inputs, root)


def all_to_all(ranks: int, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Operation:
    """Fill ``outputs[i]`` with rank i's input for this rank; sizes may differ."""
    _check_list("all_to_all", "inputs", inputs, ranks, inputs[0].dtype)
    _check_list("all_to_all", "outputs", outputs, ranks, inputs[0].dtype)
    _check_writable(*outputs)
    call = Call.of(Kind.ALL_TO_ALL, inputs[0].dtype, 0)
    return operations.all_to_all, (call, outputs, inputs)


def all_to_all_single(
    ranks: int,
    output: Tensor,
    tensor: Tensor,
    output_splits: Sequence[int],
    input_splits: Sequence[int],
) -> Operation:
    """``all_to_all`` whose parts are consecutive rows of one output and one input."""
    _check_list("all_to_all", "output", [output], 1, tensor.dtype)
    _check_strided(tensor)
    _check_writable(output)
    received = _split("output", output, output_splits, ranks)
    sent = _split("input", tensor, input_splits, ranks)
    call = Call.of(Kind.ALL_TO_ALL, tensor.dtype, 0)
    return operations.all_to_all_single, (call, output, tensor, received, sent)


def send(names: Names, tensor: Tensor, to: int, tag: int) -> Operation:
    """Send a message."""
    _check_strided(tensor)
    _check_tag(tag)
    call = Call.of(Kind.SEND, tensor.dtype, tensor.numel(), names[to])
    return operations.send, (call, tensor, to, tag)


def recv(names: Names, tensor: Tensor, source: int | None, tag: int) -> Operation:
    """Receive a message, from any rank where ``source`` is None."""
    _check_strided(tensor)
    _check_writable(tensor)
    _check_tag(tag)
    root = -1 if source is None else names[source]
    call = Call.of(Kind.RECV, tensor.dtype, tensor.numel(), root)
    return operations.recv, (call, tensor, source, tag)


def _check_strided(*tensors: Tensor) -> None:
    for tensor in tensors:
        if tensor.layout != torch.strided or not tensor.is_cpu:
            raise UsageError(
                f"a collective of the backend steptime takes dense tensors on the CPU, not one of "
                f"layout {tensor.layout} on {tensor.device}"
            )


def _check_writable(*tensors: Tensor) -> None:
    """Refuse tensors in which several elements share one place in memory."""
    for tensor in tensors:
        if any(n > 1 and s == 0 for n, s in zip(tensor.shape, tensor.stride(), strict=True)):
            raise UsageError(
                f"a tensor expanded to {tuple(tensor.shape)} cannot be written by a collective: "
                "give it memory of its own with .contiguous()"
            )


def _check_list(
    name: str,
    which: str,
    tensors: Sequence[Tensor],
    count: int,
    dtype: torch.dtype,
    elements: int | None = None,
) -> None:
    _check_strided(*tensors)
    if len(tensors) != count:
        raise UsageError(f"{name} takes {count} {which}, one for each rank, not {len(tensors)}")
    for tensor in tensors:
        if tensor.dtype != dtype:
            raise UsageError(f"{name} takes {which} of one dtype, not {dtype} and {tensor.dtype}")
        if elements is not None and tensor.numel() != elements:
            raise UsageError(
                f"{name} takes {which} of one size, not {elements} and {tensor.numel()} elements"
            )


def _check_whole(name: str, whole: Tensor, part: Tensor, ranks: int) -> None:
    if whole.numel() != ranks * part.numel():
        raise UsageError(
            f"{name} among {ranks} ranks with {part.numel()} elements on each and "
            f"{whole.numel()} in all: make the latter {ranks * part.numel()}"
        )


def _split(which: str, tensor: Tensor, splits: Sequence[int], ranks: int) -> list[int]:
    """The elements of each rank's part, from ``splits`` in rows; without them, equal parts."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if not splits:
        if rows % ranks:
            raise UsageError(
                f"all_to_all_single cannot divide the {rows} rows of its {which} among {ranks} "
                "ranks evenly: give the sizes of the splits"
            )
        splits = [rows // ranks] * ranks
    if len(splits) != ranks or sum(splits) != rows or min(splits) < 0:
        raise UsageError(
            f"all_to_all_single splits the {rows} rows of its {which} among {ranks} ranks into "
            f"{list(splits)}: give one size for each rank, that add up to {rows}"
        )
    row = tensor.numel() // rows if rows else 0
    return [size * row for size in splits]


def _check_tag(tag: int) -> None:
    if not 0 <= tag < TAGS:
        raise UsageError(f"the tag of a message is from 0 to 2^30 - 1, not {tag}")
