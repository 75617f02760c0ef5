"""Trial: one operation by one algorithm on its own buffers, which can be run repeatedly."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steptime.collectives import Algorithm, Schedule, schedule
from steptime.collectives.execute import (
    LocalRound,
    Vector,
    execute,
    local_rounds,
    slot_offsets,
)
from steptime.collectives.selection import blocks_for
from steptime.measure.exact import ExactData
from steptime.measure.transport import BenchTransport, Call, Run


@dataclass(frozen=True)
class Trial:
    """One operation: a run reads ``send`` and writes its result to ``receive``."""

    run: Run
    send: Vector
    receive: Vector


def trial(
    transport: BenchTransport,
    data: ExactData,
    algorithm: Algorithm | None,
    hosts: tuple[int, ...],
    *,
    in_place: bool,
) -> Trial | None:
    """The operation of ``data`` by ``algorithm``, or by the library itself, with new buffers.

    None where it cannot run in place. In place its output lies where nccl-tests puts it: over the
    input, an all_gather's input being its own share of the output, a reduce_scatter's output its
    own share of the input. ``hosts`` is the host of each rank.
    """
    if in_place and not data.operation.in_place:
        return None
    if algorithm is None:
        return _builtin(transport, data, in_place=in_place)
    return _scheduled(transport, data, algorithm, hosts, in_place=in_place)


def prepare(transport: BenchTransport, trial: Trial, data: ExactData) -> None:
    """Clear the result of a trial and write its input."""
    transport.write(trial.receive, np.zeros(len(trial.receive)))
    for at, numbers in data.blocks(data.input(transport.rank)):
        transport.write(trial.send[at : at + len(numbers)], numbers)


def count_wrong(transport: BenchTransport, trial: Trial, data: ExactData) -> int:
    """How many elements of this rank's result are wrong."""
    return sum(
        data.wrong(transport.read(trial.receive[at : at + len(numbers)]), numbers)
        for at, numbers in data.blocks(data.output(transport.rank))
    )


def elements_needed(data: ExactData, algorithm: Algorithm | None) -> int:
    """The most elements that a rank holds at once: buffers and messages in flight."""
    vector = data.operation.elements(data.count, data.ranks)
    if algorithm is None:
        return 2 * vector
    plan = plan_of(data, algorithm, hosts=None)
    # The input, the memory of the schedule, and two rounds' messages landing.
    return 3 * vector + slot_offsets(plan, _vector(data, plan))[-1]


def plan_of(data: ExactData, algorithm: Algorithm, hosts: tuple[int, ...] | None) -> Schedule:
    """The schedule of ``algorithm`` for the operation; a pipeline's blocks depend on the size."""
    nbytes = data.operation.elements(data.count, data.ranks) * data.dtype.size
    return schedule(algorithm, data.ranks, root=data.root, hosts=hosts, blocks=blocks_for(nbytes))


def _vector(data: ExactData, plan: Schedule) -> int:
    """Elements of the vector; a barrier, which has none, gets one in each chunk."""
    return data.operation.elements(data.count, data.ranks) or plan.chunks


def _builtin(transport: BenchTransport, data: ExactData, *, in_place: bool) -> Trial | None:
    operation, rank, count = data.operation, transport.rank, data.count
    elements = operation.elements(count, data.ranks)
    input_part = operation.input_of(rank, count, data.ranks)
    output_part = operation.output_of(rank, count, data.ranks)
    if in_place:
        vector = transport.buffer(elements, data.dtype)
        send, receive = vector[input_part], vector[output_part]
    else:
        send = transport.buffer(input_part.stop - input_part.start, data.dtype)
        receive = transport.buffer(output_part.stop - output_part.start, data.dtype)
    call = Call(operation, send, receive, count, data.root, data.reduction, in_place)
    run = transport.builtin(call)
    return Trial(run, send, receive) if run else None


def _scheduled(
    transport: BenchTransport,
    data: ExactData,
    algorithm: Algorithm,
    hosts: tuple[int, ...],
    *,
    in_place: bool,
) -> Trial:
    plan, rank = plan_of(data, algorithm, hosts), transport.rank
    rounds = local_rounds(plan, rank)
    offsets = slot_offsets(plan, _vector(data, plan))
    memory = transport.empty(offsets[-1], data.dtype)
    result = memory[offsets[plan.result] :]
    receive = result[data.operation.output_of(rank, data.count, data.ranks)]
    place = memory[data.operation.input_of(rank, data.count, data.ranks)]
    keeps_input = in_place or (plan.result > 0 and not _writes_below(rounds, plan.result))
    send = place if keeps_input else transport.empty(len(place), data.dtype)
    copies = not keeps_input and bool(data.input(rank))
    divides = data.operation.reduces and data.reduction == "avg" and bool(data.output(rank))
    reduce = transport.reducer(data.reduction)

    def empty(elements: int) -> Vector:
        return transport.empty(elements, data.dtype)

    def run() -> None:
        if copies:
            place[:] = send
        execute(rounds, memory, offsets, transport, reduce, empty)
        if divides:
            transport.divide(receive, data.ranks)

    return Trial(run, send, receive)


def _writes_below(rounds: Sequence[LocalRound], slot: int) -> bool:
    """Whether a rank writes to slots before ``slot``, which would overwrite an input to keep."""
    written = [
        *(piece for step in rounds for message in step.receives for piece in message.pieces),
        *(target for step in rounds for _, target in step.copies),
    ]
    return any(piece.first < slot for piece in written)
