"""A run's program on live ranks: the same calls, bytes and order, and a stand-in for computing."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from steptime.collectives.call_bytes import Traffic
from steptime.errors import UsageError
from steptime.program import Compute, Program, Send, check, match_calls
from steptime.program.pair_bytes import calls_record
from steptime.program.stored import StoredProgram
from steptime.replay.backends import stand_in
from steptime.replay.demand import memory_bytes, predicted
from steptime.replay.device import Device
from steptime.replay.figures import Replayed, gathered
from steptime.replay.replay import replay
from steptime.replay.run_options import ReplayOptions
from steptime.replay.transport import ReplayTransport
from steptime.runs.environment import here
from steptime.runs.figures import CallKind, StepFigures, measured_steps, sum_by
from steptime.runs.record import Place, RunRecord, Timing, Work
from steptime.study.run_programs import programs_of
from steptime.timeline import phases_of_steps
from steptime.units import format_bytes

_SUMMARY = "the calls of a run once more"
_WORD = 4
"""The bytes of an fp32."""


def program_to_replay(run: Path, strategy: str | None = None) -> StoredProgram:
    """The program of a run's folder, its computing as long as it took there.

    Raises UsageError where it has none, several of which none is named, or none of that name.
    """
    found = programs_of(run)
    chosen = [one for one in found if strategy in (None, one.program.name)]
    if len(chosen) != 1:
        names = ", ".join(one.program.name for one in found)
        what = f"has no program {strategy!r}" if strategy else f"has {len(found)} programs"
        raise UsageError(f"{run} {what}: name one with --strategy, of {names}")
    (stored,) = chosen
    program = with_durations(stored)
    check(program)
    match_calls(program)
    return replace(stored, program=program)


def with_durations(stored: StoredProgram) -> Program:
    """Its program with the seconds that each computation took, or would have taken, in its run."""
    program = stored.program
    lists = tuple(
        tuple(
            replace(op, seconds=seconds) if isinstance(op, Compute) else op
            for op, seconds in zip(ops, of_class, strict=True)
        )
        for ops, of_class in zip(program.lists, stored.seconds, strict=True)
    )
    return replace(program, lists=lists)


def check_ranks(program: Program, ranks: int, ranks_here: int, available: int) -> None:
    """Raise UsageError where there are not as many ranks as the program has, or no room for them.

    ``available``: bytes of memory of this host, where ``ranks_here`` of them are.
    """
    if ranks != program.ranks:
        raise UsageError(
            f"{program.name} ran on {program.ranks} ranks and there are {ranks}: replay it on "
            f"{program.ranks}"
        )
    messages = message_dtype(program)
    most = max(memory_bytes(program, ops, messages) for ops in program.lists)
    if ranks_here * most > available:
        raise UsageError(
            f"{ranks_here} ranks on this host need {format_bytes(ranks_here * most)} of memory for "
            f"what {program.name} sends, and {format_bytes(available)} are free: replay it on more "
            "hosts"
        )


def replayed(
    stored: StoredProgram, transport: ReplayTransport, options: ReplayOptions, backend: str
) -> Replayed:
    """Replay it as one of the ranks, which all call this, and tell each what all measured."""
    program = stored.program
    own = replay(
        program,
        transport,
        steps=options.steps,
        warmup=options.warmup,
        compute=stand_in(options.compute, backend),
        device=Device(),
        verify=options.verify,
        seed=options.seed,
        messages=message_dtype(program),
    )
    return gathered(transport.world, own, program)


def message_dtype(program: Program) -> str:
    """The dtype in whose elements every message of a program is whole."""
    sizes = [op.nbytes for ops in program.lists for op in ops if isinstance(op, Send)]
    return "fp32" if all(size % _WORD == 0 for size in sizes) else "uint8"


def replayed_record(
    of: str, stored: StoredProgram, run: Replayed, options: ReplayOptions, place: Place
) -> RunRecord:
    """The record of a replay of the run ``of``."""
    program, name = stored.program, stored.program.name
    phases = phases_of_steps(run.timeline, name)
    ranks = list(range(program.ranks))
    table = np.stack([phases[phases["rank"] == rank] for rank in ranks])  # (ranks, steps)
    hosts = [""] * program.ranks
    for clock in run.timeline.clocks:
        for rank in clock.ranks:
            hosts[rank] = clock.host
    traffic = [sum_of(moved.values()) for moved in predicted(program)]
    sent, received = [one.sent for one in traffic], [one.received for one in traffic]
    figures = StepFigures(
        source="measured",
        summary=_SUMMARY,
        **measured_steps(table, ranks, hosts),
        bytes_sent_per_rank=sent,
        bytes_received_per_rank=received,
        bytes_sent_per_host=sum_by(hosts, sent),
        bytes_received_per_host=sum_by(hosts, received),
        calls=[CallKind(**call) for call in calls_record(program)],
    )
    return RunRecord(
        verb="replay",
        work=Work(
            model=f"{name} of {of}",
            axes=dict(program.axes),
            compute={"stand_in": options.compute, "times": "as long as it took in the run"},
            seed=options.seed,
        ),
        place=place,
        timing=Timing(steps=options.warmup + options.steps, warmup=options.warmup),
        strategies={name: figures},
        clock=run.timeline.clocks,
        environment=here(own=place.world_size * (place.threads or 1)),
    )


def sum_of(moved: Iterable[Traffic]) -> Traffic:
    """All traffic together."""
    whole = Traffic(0, 0)
    for one in moved:
        whole = whole.plus(one)
    return whole
