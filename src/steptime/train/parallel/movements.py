"""Movements: collectives within forward, each with the one that its backward makes.

Those of Megatron-LM (Shoeybi et al., arXiv 1909.08053, section 3) and, with sequence parallelism,
of Korthikanti et al. (arXiv 2205.05198, section 4.2.2). A movement of a group of one rank, None,
does nothing. Shapes: B rows, T tokens of a row, S tokens of it that this rank holds.
"""

from typing import Any

import torch
from torch import Tensor

from steptime.train.parallel.axes import Axes
from steptime.workloads.mesh import TENSOR
from steptime.world.communicator import Communicator


class _CopiedIn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, comm: Communicator) -> Tensor:
        ctx.comm = comm
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        gradient = gradients[0].contiguous()
        ctx.comm.all_reduce(gradient).wait()
        return gradient, None


class _SummedOut(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: Tensor, comm: Communicator) -> Tensor:
        total = x.contiguous()
        total = total.clone() if total is x else total
        comm.all_reduce(total).wait()
        return total

    @staticmethod
    def backward(_: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, comm: Communicator) -> Tensor:
        ctx.comm = comm
        return _gather(x, comm)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _sum_and_scatter(gradients[0], ctx.comm), None


class _Scattered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, comm: Communicator) -> Tensor:
        ctx.comm = comm
        return _sum_and_scatter(x, comm)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _gather(gradients[0], ctx.comm), None


def copied_in(x: Tensor, comm: Communicator | None) -> Tensor:
    """``x``, which every rank has; backward sums what the ranks' shares of the work make of it."""
    return _applied(_CopiedIn, x, comm)


def summed_out(x: Tensor, comm: Communicator | None) -> Tensor:
    """The sum of all ranks' ``x``; backward gives each the gradient of the sum."""
    return _applied(_SummedOut, x, comm)


def gathered(x: Tensor, comm: Communicator | None) -> Tensor:
    """All ranks' ``x`` of shape (B, S, ...), one after the other: (B, T, ...).

    Backward sums the ranks' gradients, of which each keeps its own part.
    """
    return _applied(_Gathered, x, comm)


def scattered(x: Tensor, comm: Communicator | None) -> Tensor:
    """This rank's part (B, S, ...) of the sum of all ranks' ``x``, shape (B, T, ...).

    Backward gathers the gradients of all parts.
    """
    return _applied(_Scattered, x, comm)


def enter(x: Tensor, axes: Axes) -> Tensor:
    """The tokens that half a block computes with: of this rank or, gathered, all of its group."""
    return (gathered if axes.sequence_parallel else copied_in)(x, axes.comm(TENSOR))


def leave(x: Tensor, axes: Axes) -> Tensor:
    """The sum of what tensor ranks made in half a block: for all tokens or for this rank's."""
    return (scattered if axes.sequence_parallel else summed_out)(x, axes.comm(TENSOR))


def _applied(kind: Any, x: Tensor, comm: Communicator | None) -> Tensor:
    if comm is None:
        return x
    made: Tensor = kind.apply(x, comm)
    return made


def _gather(x: Tensor, comm: Communicator) -> Tensor:
    """Each rank's share of a collective is contiguous, so rows come apart on the way."""
    whole = x.new_empty((comm.ranks, *x.shape))
    whole[comm.rank] = x
    comm.all_gather(whole.view(-1)).wait()
    return whole.transpose(0, 1).flatten(1, 2)


def _sum_and_scatter(x: Tensor, comm: Communicator) -> Tensor:
    parts = x.unflatten(1, (comm.ranks, -1)).transpose(0, 1)
    vector = parts.clone(memory_format=torch.contiguous_format)  # summed in place
    comm.reduce_scatter(vector.view(-1)).wait()
    mine: Tensor = vector[comm.rank]
    return mine.clone()  # lest all of the vector stays in memory
