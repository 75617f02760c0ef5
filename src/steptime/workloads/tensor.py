"""Tensor parallelism: each rank holds a share of every matrix, and the results are summed."""

from collections.abc import Sequence
from dataclasses import replace

from steptime.program import Collective
from steptime.workloads.mesh import TENSOR
from steptime.workloads.models import Tensor, Transformer
from steptime.workloads.precision import element_bytes
from steptime.workloads.segment import Cut, Segment

_LOSS_REDUCES = 3  # greatest logit, sum of exponentials, logit of the target


def laid_out(model: Transformer, ranks: int) -> Transformer:
    """The model with a vocabulary that so many ranks divide, padded as Megatron-LM does."""
    return model.padded(128 * ranks)


def summed(cut: Cut, half: Sequence[Segment]) -> tuple[Segment, ...]:
    """Half a block, the embedding or the head, with the sums of its tensor-parallel ranks.

    Each rank has some columns of the first matrix and some rows of the last: they sum the outputs,
    and backward the gradients of the inputs (arXiv 1909.08053, section 3). Of the head each has
    some words, and sums the terms of the loss.

    With sequence parallelism each rank gathers the tokens before and keeps its own part of the sums
    after: the same bytes along a ring (arXiv 2205.05198, section 4.2.2). Gathered tokens are taken
    to be kept; the paper gathers them again in backward, behind other computing.
    """
    if cut.mesh.tensor == 1:
        return tuple(half)
    return _entered(cut, _left(cut, tuple(half)))


def in_parts(tensor: Tensor, *, sequence_parallel: bool) -> bool:
    """Whether each tensor-parallel rank has only a part of a tensor's gradient.

    These are added up once a step. With sequence parallelism all that every rank holds has such a
    gradient, for each computed with its own tokens. Without, that of a router has: what it weighs
    are outputs of experts of which each rank has a part, and so it is with biases of experts.
    """
    if tensor.split:
        return False
    return sequence_parallel or tensor.expert or ".router." in tensor.name


def _entered(cut: Cut, half: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """The collectives where activations go in, and their gradients come out."""
    first, *others = half
    if first.part.name == "embedding":  # tokens are there, and need no gradient
        return half
    if cut.sequence_parallel:
        first = replace(
            first,
            enter=(_activations(cut, "all_gather", first),),
            leave_backward=(_activations(cut, "reduce_scatter", first),),
        )
    else:
        first = replace(first, leave_backward=(_activations(cut, "all_reduce", first),))
    return first, *others


def _left(cut: Cut, half: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """The collectives where activations come out, and their gradients go in."""
    *others, last = half
    if last.part.name == "head":
        last = replace(last, leave=_sums_of_loss(cut))
    elif cut.sequence_parallel:
        last = replace(
            last,
            leave=(_activations(cut, "reduce_scatter", last),),
            enter_backward=(_activations(cut, "all_gather", last),),
        )
    else:
        last = replace(last, leave=(_activations(cut, "all_reduce", last),))
    return *others, last


def _activations(cut: Cut, kind: str, segment: Segment) -> Collective:
    return among_tensor(kind, segment.part.name, cut.activation_bytes(cut.tokens), cut.dtype)


def _sums_of_loss(cut: Cut) -> tuple[Collective, ...]:
    nbytes = cut.tokens * element_bytes("fp32")
    return (among_tensor("all_reduce", "head", nbytes, "fp32"),) * _LOSS_REDUCES


def among_tensor(kind: str, name: str, nbytes: int, dtype: str) -> Collective:
    """A collective among tensor-parallel ranks, which computing waits for."""
    return Collective(
        name=name, kind=kind, group=(TENSOR,), nbytes=nbytes, dtype=dtype, stream=TENSOR
    )
