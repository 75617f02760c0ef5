"""Expert parallelism: tokens on their way to the ranks of their experts, and back.

Lepikhin et al., "GShard" (arXiv 2006.16668, section 3), without a capacity: every token reaches its
experts, so that ranks train as one process does, and how many bytes a rank receives depends on the
routing. With sequence parallelism as Megatron-LM's MoEAlltoAllTokenDispatcher. Shapes: N rows, each
a token for one of its experts, of C channels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from steptime.train.parallel.axes import Axes
from steptime.train.parallel.movements import gathered, scattered
from steptime.workloads.mesh import EXPERT, TENSOR
from steptime.world.communicator import Communicator


def held_experts(experts: int, axes: Axes) -> range:
    """The numbers of the experts that this rank holds, or its share of."""
    each = experts // axes.mesh.expert
    return range(axes.at[EXPERT] * each, (axes.at[EXPERT] + 1) * each)


def through_experts(
    rows: Tensor, counts: Tensor, axes: Axes, compute: Callable[[Tensor, list[int]], Tensor]
) -> Tensor:
    """What the experts of all ranks make of this rank's rows, shape (N, C), in their order.

    ``rows``, shape (N, C), are sorted by expert: ``counts``, int64 of shape (experts,), of each.
    ``compute`` does the same for the experts that this rank holds.
    """
    comm, tensor = axes.comm(EXPERT), axes.comm(TENSOR) if axes.sequence_parallel else None
    if comm is None:
        return compute(rows, counts.tolist())
    routes = _routes(counts, comm, axes)
    arrived = _gathered_rows(
        _exchanged(rows, comm, routes.sends, routes.receives), routes.of_tensor_ranks, tensor
    )
    by_expert = routes.by_expert
    sizes = [routes.blocks[number] for number in by_expert]
    made = compute(_reordered(arrived, routes.blocks, by_expert), routes.of_experts)
    made = _reordered(made, sizes, sorted(range(len(sizes)), key=by_expert.__getitem__))
    own = _scattered_rows(made, routes.of_tensor_ranks, tensor)
    return _exchanged(own, comm, routes.receives, routes.sends)


@dataclass(frozen=True, kw_only=True)
class _Routes:
    """How many rows go where.

    ``sends`` and ``receives``: to and from each rank along ``expert``. ``blocks``: of what comes to
    this rank's experts, by the tensor rank and the expert rank that it comes from and by its
    expert, the last varying fastest. ``of_tensor_ranks``, ``of_experts``: their sums.
    """

    sends: list[int]
    receives: list[int]
    blocks: list[int]
    of_tensor_ranks: list[int]
    of_experts: list[int]

    @property
    def by_expert(self) -> list[int]:
        """The numbers of the blocks, those of the first expert first."""
        held = len(self.of_experts)
        return [n for first in range(held) for n in range(first, len(self.blocks), held)]


def _routes(counts: Tensor, comm: Communicator, axes: Axes) -> _Routes:
    """Tell all ranks how many rows there are for each expert, so that each knows what comes."""
    shared = axes.sequence_parallel
    everyone = axes.comms[TENSOR, EXPERT] if shared else comm
    every = counts.new_zeros((everyone.ranks, len(counts)))
    every[everyone.rank] = counts
    everyone.all_gather(every.view(-1)).wait()
    by_rank = every.cpu().view(comm.ranks, -1, comm.ranks, len(counts) // comm.ranks)
    sent = by_rank[:, axes.at[TENSOR] if shared else 0].sum(-1)  # (from, to)
    arriving = by_rank[:, :, comm.rank].transpose(0, 1)  # (tensor rank, from, expert)
    return _Routes(
        sends=sent[comm.rank].tolist(),
        receives=sent[:, comm.rank].tolist(),
        blocks=arriving.flatten().tolist(),
        of_tensor_ranks=arriving.sum((1, 2)).tolist(),
        of_experts=arriving.sum((0, 1)).tolist(),
    )


class _Exchanged(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, comm: Communicator, sends: list[int], receives: list[int]
    ) -> Tensor:
        ctx.way = comm, receives, sends
        return _exchange(rows, comm, sends, receives)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return _exchange(gradients[0], *ctx.way), None, None, None


def _exchanged(rows: Tensor, comm: Communicator, sends: list[int], receives: list[int]) -> Tensor:
    made: Tensor = _Exchanged.apply(rows, comm, sends, receives)  # type: ignore[no-untyped-call]
    return made


def _exchange(rows: Tensor, comm: Communicator, sends: list[int], receives: list[int]) -> Tensor:
    arrives, work = comm.exchange(rows.contiguous(), sends, receives)
    work.wait()
    return arrives


def _reordered(rows: Tensor, sizes: list[int], order: list[int]) -> Tensor:
    """The blocks of rows, which have these sizes, in another order."""
    blocks = rows.split(sizes)
    return torch.cat([blocks[number] for number in order])


def _gathered_rows(rows: Tensor, counts: list[int], comm: Communicator | None) -> Tensor:
    """The rows of all tensor ranks, one after the other; on the way all are as many as the most."""
    if comm is None:
        return rows
    most = max(1, *counts)
    parts = gathered(_padded(rows, most)[None], comm)[0].split(most)
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


def _scattered_rows(rows: Tensor, counts: list[int], comm: Communicator | None) -> Tensor:
    """This rank's rows of the sum of what tensor ranks made of all: back from gathered."""
    if comm is None:
        return rows
    most = max(1, *counts)
    every = torch.cat([_padded(part, most) for part in rows.split(counts)])
    return scattered(every[None], comm)[0, : counts[comm.rank]]


def _padded(rows: Tensor, count: int) -> Tensor:
    return F.pad(rows, (0, 0, 0, count - len(rows)))
