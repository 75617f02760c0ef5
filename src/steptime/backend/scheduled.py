"""ScheduledGroup: collectives carried out by the algorithms that the user selected by name."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from steptime.backend.engine import Engine
from steptime.backend.flatten import joined, parts
from steptime.backend.host import Call
from steptime.backend.reduction import BOR, Reduction
from steptime.backend.transport import ScheduleTransport
from steptime.collectives import Schedule, schedule
from steptime.collectives.execute import LocalRound, execute, local_rounds, slot_offsets
from steptime.collectives.lookup import find_algorithm
from steptime.collectives.selection import BUILTIN, Selection, blocks_for


class ScheduledGroup:
    """An Engine that carries out ``selected`` collectives by schedules, all others by ``builtin``.

    ``hosts``: the host of each rank, for algorithms that depend on it. The size by which an
    algorithm is selected is that of the vector that its schedule cuts into chunks: all ranks' parts
    together where each rank has its own.
    """

    def __init__(
        self,
        builtin: Engine,
        transport: ScheduleTransport,
        selected: Mapping[str, Selection],
        hosts: tuple[int, ...],
    ) -> None:
        self.rank = builtin.rank
        self.ranks = builtin.ranks
        self.send, self.try_send, self.recv = builtin.send, builtin.try_send, builtin.recv
        self._builtin = builtin
        self._transport = transport
        self._selected = selected
        self._hosts = hosts
        self._plan = lru_cache(maxsize=256)(self._make_plan)

    def barrier(self, call: Call) -> None:
        """Return when all ranks are here."""
        name = self._chosen("barrier", 0)
        if name == BUILTIN:
            self._builtin.barrier(call)
            return
        self._carry_out(call, "barrier", name, torch.zeros(0, dtype=torch.uint8), op=BOR)

    def all_reduce(self, call: Call, tensor: Tensor, op: Reduction) -> None:
        """Reduce ``tensor`` in place, on all ranks."""
        name = self._chosen("all_reduce", tensor.nbytes)
        if name == BUILTIN:
            self._builtin.all_reduce(call, tensor, op)
            return
        self._finish(op, self._reduced(call, "all_reduce", name, tensor, op), tensor)

    def reduce(self, call: Call, tensor: Tensor, root: int, op: Reduction) -> None:
        """Reduce ``tensor`` into that of ``root``, in place."""
        name = self._chosen("reduce", tensor.nbytes)
        if name == BUILTIN:
            self._builtin.reduce(call, tensor, root, op)
            return
        total = self._reduced(call, "reduce", name, tensor.clone(), op, root)
        if self.rank == root:
            self._finish(op, total, tensor)

    def reduce_scatter(
        self, call: Call, output: Tensor, inputs: Sequence[Tensor], op: Reduction
    ) -> None:
        """Fill ``output`` with the reduction of everyone's ``inputs[rank]``."""
        name = self._chosen("reduce_scatter", self.ranks * output.nbytes)
        if name == BUILTIN:
            self._builtin.reduce_scatter(call, output, inputs, op)
            return
        total = self._reduced(call, "reduce_scatter", name, torch.cat(list(inputs)), op)
        self._finish(op, self._share(total, self.rank), output)

    def broadcast(self, call: Call, tensor: Tensor, root: int) -> None:
        """Copy the tensor of ``root`` into everyone's."""
        name = self._chosen("broadcast", tensor.nbytes)
        if name == BUILTIN:
            self._builtin.broadcast(call, tensor, root)
            return
        self._carry_out(call, "broadcast", name, tensor, root=root)

    def all_gather(self, call: Call, outputs: Sequence[Tensor], tensor: Tensor) -> None:
        """Fill ``outputs[i]`` with the tensor of rank i."""
        name = self._chosen("all_gather", self.ranks * tensor.nbytes)
        if name == BUILTIN:
            self._builtin.all_gather(call, outputs, tensor)
            return
        vector = joined(outputs)
        if vector is not None:
            outputs[self.rank].copy_(tensor)
            self._carry_out(call, "all_gather", name, vector)
            return
        vector = self._with_share(tensor)
        self._carry_out(call, "all_gather", name, vector)
        _copy(parts(vector, [tensor.numel()] * self.ranks), outputs)

    def gather(
        self, call: Call, outputs: Sequence[Tensor] | None, tensor: Tensor, root: int
    ) -> None:
        """On ``root``, fill ``outputs[i]`` with the ``tensor`` of rank i."""
        name = self._chosen("gather", self.ranks * tensor.nbytes)
        if name == BUILTIN:
            self._builtin.gather(call, outputs, tensor, root)
            return
        vector = self._with_share(tensor)
        self._carry_out(call, "gather", name, vector, root=root)
        _copy(parts(vector, [tensor.numel()] * self.ranks), outputs or ())

    def scatter(
        self, call: Call, output: Tensor, inputs: Sequence[Tensor] | None, root: int
    ) -> None:
        """Fill ``output`` of rank i with ``inputs[i]`` of ``root``."""
        name = self._chosen("scatter", self.ranks * output.nbytes)
        if name == BUILTIN:
            self._builtin.scatter(call, output, inputs, root)
            return
        room = self.ranks * output.numel()
        vector = torch.cat(list(inputs)) if inputs else output.new_empty(room)
        self._carry_out(call, "scatter", name, vector, root=root)
        output.copy_(self._share(vector, self.rank))

    def all_to_all(self, call: Call, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        """Fill ``outputs[i]`` with rank i's ``inputs[rank]``, where ``rank`` is this rank.

        A schedule moves chunks of one size, so unequal parts are left to the builtin.
        """
        name = self._chosen("all_to_all", sum(tensor.nbytes for tensor in inputs))
        sent, received = ([t.numel() for t in tensors] for tensors in (inputs, outputs))
        if name == BUILTIN or not self._transport.agree(call, sent, received):
            self._builtin.all_to_all(call, outputs, inputs)
            return
        vector = torch.cat(list(inputs))
        memory = torch.cat([vector, torch.empty_like(vector)])
        self._carry_out(call, "all_to_all", name, memory, elements=vector.numel())
        _copy(parts(memory[vector.numel() :], received), outputs)

    def close(self) -> None:
        """Free what both groups hold."""
        self._builtin.close()
        self._transport.close()

    def _chosen(self, collective: str, size: int) -> str:
        selection = self._selected.get(collective)
        return selection.algorithm(size) if selection else BUILTIN

    def _share(self, vector: Tensor, rank: int) -> Tensor:
        return vector.view(self.ranks, -1)[rank]

    def _with_share(self, tensor: Tensor) -> Tensor:
        vector = tensor.new_empty(self.ranks * tensor.numel())
        self._share(vector, self.rank).copy_(tensor)
        return vector

    def _reduced(
        self, call: Call, collective: str, name: str, tensor: Tensor, op: Reduction, root: int = 0
    ) -> Tensor:
        """Run the schedule; returns the vector in the dtype in which ``op`` combines."""
        vector = tensor.to(op.accumulator(tensor.dtype))
        self._carry_out(call, collective, name, vector, root=root, op=op)
        return vector

    def _finish(self, op: Reduction, total: Tensor, result: Tensor) -> None:
        if op.finish:
            op.finish(total, self.ranks)
        if total.data_ptr() != result.data_ptr():
            result.copy_(total)

    def _make_plan(
        self, collective: str, name: str, root: int, blocks: int
    ) -> tuple[Schedule, tuple[LocalRound, ...]]:
        plan = schedule(
            find_algorithm(collective, name),
            self.ranks,
            root=root,
            hosts=self._hosts,
            blocks=blocks,
        )
        return plan, local_rounds(plan, self.rank)

    def _carry_out(
        self,
        call: Call,
        collective: str,
        name: str,
        vector: Tensor,
        *,
        root: int = 0,
        op: Reduction = BOR,
        elements: int | None = None,
    ) -> None:
        """Carry out the schedule on ``vector``, whose first ``elements`` it cuts into chunks."""
        self._transport.agree(call)
        plan, rounds = self._plan(collective, name, root, blocks_for(vector.nbytes))
        offsets = slot_offsets(plan, vector.numel() if elements is None else elements)
        memory = vector
        if offsets[-1] > vector.numel():
            memory = vector.new_empty(offsets[-1])
            memory[: vector.numel()].copy_(vector)

        def combine(into: Tensor, other: Tensor) -> None:
            op.combine(into, other, out=into)

        transport = _CallTransport(self._transport, call)
        execute(rounds, memory, offsets, transport, combine, vector.new_empty)
        if memory is not vector:
            vector.copy_(memory[: vector.numel()])


class _CallTransport:
    """The Transport of a schedule's messages within one call."""

    early = True

    def __init__(self, transport: ScheduleTransport, call: Call) -> None:
        self._transport = transport
        self._call = call

    def send(self, vector: Tensor, to: int) -> Callable[[], None]:
        """Begin to send."""
        return self._transport.begin_send(self._call, _not_empty(vector), to)

    def receive(self, vector: Tensor, source: int) -> Callable[[], None]:
        """Begin to receive."""
        return self._transport.begin_receive(self._call, _not_empty(vector), source)


def _not_empty(vector: Tensor) -> Tensor:
    """The vector, or one element for an empty one: a barrier's messages must arrive too."""
    return vector if vector.numel() else torch.zeros(1, dtype=torch.uint8)


def _copy(sources: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
    for source, target in zip(sources, targets, strict=False):
        target.copy_(source)
