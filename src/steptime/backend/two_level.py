"""TwoLevelGroup: hierarchical collectives: shared memory within a host, network between leaders.

A collective runs first among the ranks of each host, then among the hosts' leaders, and again
within each host. Where that gains nothing, all ranks use the network directly.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from steptime.backend.flatten import parts
from steptime.backend.folding import fold
from steptime.backend.host import Call, HostGroup, Kind
from steptime.backend.network import NetworkGroup
from steptime.backend.reduction import Reduction
from steptime.errors import SteptimeError

_LEADER = 0
"""The leader of a host: its first rank."""


class TwoLevelGroup:
    """An Engine for ranks on several hosts, some of which have several ranks.

    ``partition``: the ranks of each host. ``host``: the group of the ranks on this host; ``among``:
    that of all ranks; ``between``: that of the leaders, only on a leader.
    """

    def __init__(
        self,
        partition: Sequence[Sequence[int]],
        host: HostGroup,
        among: NetworkGroup,
        between: NetworkGroup | None,
    ) -> None:
        self.rank = among.rank
        self.ranks = among.ranks
        self._partition = partition
        self._place = {
            rank: (index, local)
            for index, members in enumerate(partition)
            for local, rank in enumerate(members)
        }
        self._host = host
        self._among = among
        self._between = between
        # What gains nothing by two levels goes over the network.
        self.gather, self.scatter, self.all_to_all = among.gather, among.scatter, among.all_to_all
        self.send, self.try_send, self.recv = among.send, among.try_send, among.recv

    def barrier(self, call: Call) -> None:
        """Return when all ranks are here."""
        with self._under_way(call):
            self._lead(lambda between: between.barrier(call))
            self._host.barrier(call)

    def all_reduce(self, call: Call, tensor: Tensor, op: Reduction) -> None:
        """Reduce on each host, all_reduce among leaders, broadcast on each host."""
        with self._under_way(call):
            total = self._host_total(tensor, op)
            self._lead(lambda between: between.all_reduce(call, total, _partial(op)))
            self._spread(total)
            self._conclude(total, op, tensor)

    def reduce(self, call: Call, tensor: Tensor, root: int, op: Reduction) -> None:
        """Reduce on each host, then among leaders; the root's leader passes it on."""
        with self._under_way(call):
            total = self._host_total(tensor, op)
            index, _ = self._place[root]
            self._lead(lambda between: between.reduce(call, total, index, _partial(op)))
            self._spread(total)
            if self.rank == root:
                self._conclude(total, op, tensor)

    def broadcast(self, call: Call, tensor: Tensor, root: int) -> None:
        """Broadcast on the root's host, then among the leaders, then on the other hosts."""
        with self._under_way(call):
            index, local = self._place[root]
            here = index == self._place[self.rank][0]
            if here:
                self._host.broadcast(_inner(Kind.BROADCAST, tensor, local), tensor, local)
            self._lead(lambda between: between.broadcast(call, tensor, index))
            if not here:
                self._spread(tensor)

    def all_gather(self, call: Call, outputs: Sequence[Tensor], tensor: Tensor) -> None:
        """Gather on each host, exchange among leaders, broadcast on each host."""
        with self._under_way(call):
            everything, blocks = self._blocks(tensor)
            block = blocks[self._place[self.rank][0]]
            shares = parts(block, [tensor.numel()] * self._host.ranks)
            self._host.all_gather(_inner(Kind.ALL_GATHER, tensor), shares, tensor)
            self._lead(lambda between: between.all_to_all(call, blocks, [block] * between.ranks))
            self._spread(everything)
            in_order = [rank for members in self._partition for rank in members]
            gathered = parts(everything, [tensor.numel()] * self.ranks)
            for rank, share in zip(in_order, gathered, strict=True):
                outputs[rank].copy_(share)

    def reduce_scatter(
        self, call: Call, output: Tensor, inputs: Sequence[Tensor], op: Reduction
    ) -> None:
        """Reduce on each host, send each host its part, and scatter the sums there."""
        with self._under_way(call):
            in_order = [inputs[rank] for members in self._partition for rank in members]
            total = self._host_total(torch.cat(in_order), op)
            counts = [len(members) * output.numel() for members in self._partition]
            block = parts(total, counts)[self._place[self.rank][0]]
            self._lead(lambda between: _reduce_part(call, between, parts(total, counts), op, block))
            result = torch.empty_like(output, dtype=total.dtype)
            shares = parts(block, [output.numel()] * self._host.ranks)
            self._host.scatter(
                _inner(Kind.SCATTER, result, _LEADER),
                result,
                shares if self._host.rank == _LEADER else None,
                _LEADER,
            )
            self._conclude(result, op, output)

    def close(self) -> None:
        """Free what all groups hold."""
        self._host.close()
        self._among.close()
        if self._between is not None:
            self._between.close()

    @contextmanager
    def _under_way(self, call: Call) -> Iterator[None]:
        """Agree on the call within the host; break the other groups if it fails there."""
        try:
            self._host.barrier(call)
            yield
        except SteptimeError as error:
            self._among.fail(error)
            if self._between is not None:
                self._between.fail(error)
            raise

    def _lead(self, step: Callable[[NetworkGroup], None]) -> None:
        """Take a step between the hosts, on the leader; the others of its host learn of failure."""
        if self._between is None:
            return
        try:
            step(self._between)
        except SteptimeError as error:
            raise self._host.fail(error) from error

    def _host_total(self, tensor: Tensor, op: Reduction) -> Tensor:
        """The reduction over this host, on its leader, in the dtype that goes on."""
        total = tensor.to(op.accumulator(tensor.dtype), copy=True)
        self._host.reduce(
            _inner(Kind.REDUCE, total, _LEADER, op.name), total, _LEADER, _partial(op)
        )
        return total

    def _spread(self, tensor: Tensor) -> None:
        self._host.broadcast(_inner(Kind.BROADCAST, tensor, _LEADER), tensor, _LEADER)

    def _conclude(self, total: Tensor, op: Reduction, result: Tensor) -> None:
        if op.finish:
            op.finish(total, self.ranks)
        result.copy_(total)

    def _blocks(self, tensor: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Room for one such tensor of every rank, host by host, and the part of each host."""
        counts = [len(members) * tensor.numel() for members in self._partition]
        everything = torch.empty(sum(counts), dtype=tensor.dtype)
        return everything, parts(everything, counts)


def _reduce_part(
    call: Call, between: NetworkGroup, blocks: Sequence[Tensor], op: Reduction, block: Tensor
) -> None:
    """Reduce this host's block, ``block``, over the hosts."""
    contributions = [torch.empty_like(block) for _ in blocks]
    between.all_to_all(call, contributions, blocks)
    fold(_partial(op), contributions, block)


def _partial(op: Reduction) -> Reduction:
    """``op`` without its final step, for reducing only some of the ranks."""
    return Reduction(op.name, op.combine)


def _inner(kind: Kind, tensor: Tensor, root: int = -1, op: str = "") -> Call:
    return Call.of(kind, tensor.dtype, tensor.numel(), root, op)
