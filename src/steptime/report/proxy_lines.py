"""A proxy in lines: its plan, and what was measured and simulated."""

from collections.abc import Iterator
from textwrap import wrap

from steptime.replay.options import ProxyOptions
from steptime.replay.spread import RANKS_OF_A_HOST, how_cut, spread_lines
from steptime.replay.workload import Proxy
from steptime.report.utilisation import used_lines
from steptime.runs.figures import EXPOSED
from steptime.runs.memory import memory_lines, misfit
from steptime.runs.proxy_record import Moved, ProxyRecord, ProxyStep, error_of
from steptime.units import format_bytes, format_seconds

_SHOWN = 16
"""So many ranks, or kinds of ranks, are printed; run.json has all."""

_NAME = 34
"""Columns for the name of a call; a longer one has a line of its own."""


def plan_lines(plan: Proxy, asked: ProxyOptions) -> Iterator[str]:
    """What is to run, before anything does."""
    program = plan.program
    if unfit := misfit(plan.model_memory):
        yield from wrap(f"DOES NOT FIT: {unfit}", 80, break_on_hyphens=False)
    sizes = " × ".join(f"{axis} {size:,}" for axis, size in program.axes.items())
    yield f"{plan.model}: {sizes} = {program.ranks:,} ranks"
    if cut := how_cut(program.name):
        yield f"  {cut}"
    if plan.fraction != 1:
        yield f"NOT THE REAL MESSAGES: each is shrunk to {plan.fraction} of its bytes"
    yield from wrap(f"{plan.compute}: {plan.times}", 80, subsequent_indent="  ")
    if asked.verify:
        yield "every value is checked, which takes time within the steps"
    total = sum(
        int((program.class_of == kind).sum()) * demand.memory_bytes
        for kind, demand in enumerate(plan.demands)
    )
    yield (
        f"memory of buffers, computed: {format_bytes(plan.memory_bytes())} a rank at most, "
        f"{format_bytes(total)} in all"
    )
    if plan.model_memory:
        yield from memory_lines(plan.model_memory)
    yield ""
    yield from spread_lines(plan.placement, _hosts_assumed(plan, asked))
    yield ""
    yield from _class_lines(plan)


def _hosts_assumed(plan: Proxy, asked: ProxyOptions) -> str:
    """How many ranks a host is taken to have, where no cluster says it."""
    return "" if plan.cluster else f"{asked.ranks_per_host or RANKS_OF_A_HOST} a host"


def _class_lines(plan: Proxy) -> Iterator[str]:
    """What each kind of rank calls in a step."""
    yield "in a step (computed)                    calls        elements   group"
    for kind, demand in enumerate(plan.demands[:_SHOWN]):
        own = (plan.program.class_of == kind).nonzero()[0]
        more = f" and {own.size - 1:,} more" if own.size > 1 else ""
        yield f"rank {own[0]:,}{more}: {format_seconds(demand.compute_s)} of computing"
        for (what, axes, members), calls in demand.collectives.items():
            name = f"{what} {'+'.join(axes)}"
            if len(name) > _NAME:
                yield f"  {name}"
                name = ""
            yield f"  {name:<{_NAME}} {calls.calls:>8,} {calls.elements:>15,} {members:>7,}"
        for name, calls in (("sends", demand.sends), ("receives", demand.receives)):
            if calls.calls:
                yield f"  {name:<{_NAME}} {calls.calls:>8,} {calls.elements:>15,}"
    if len(plan.demands) > _SHOWN:
        yield f"and {len(plan.demands) - _SHOWN} more: see --json"


def answer_lines(run: ProxyRecord) -> Iterator[str]:
    """What was measured and, beside it, simulated."""
    step = run.step
    if step is None:
        return
    took = step.step_time_s
    yield ""
    yield (
        f"step: {format_seconds(took.median)}, median of {run.steps} on the slowest rank, "
        f"measured\n  p10 {format_seconds(took.p10)}, p90 {format_seconds(took.p90)}"
    )
    yield ""
    yield from _phase_lines(step)
    yield ""
    if run.simulated:
        yield from _beside_lines(step, run.simulated)
        yield ""
    yield from _byte_lines(run)
    if step.verified and step.verified.checked:
        yield f"{step.verified.checked:,} elements received, and all are right"
    yield (
        f"memory of the processes, measured: {format_bytes(max(step.rss_bytes))} a rank at most, "
        f"{format_bytes(sum(step.rss_bytes))} in all"
    )
    yield from _defect_lines(run)


def _defect_lines(run: ProxyRecord) -> Iterator[str]:
    """What is known to be wrong with an original, as it is followed: the first of it."""
    if not run.plan.defects:
        return
    first, *others = run.plan.defects
    more = f" And {len(others)} more: see run.json." if others else ""
    yield from wrap(f"known defects of the original: {first}{more}", 80)


def _phase_lines(step: ProxyStep) -> Iterator[str]:
    yield f"{step.source:<28} mean of ranks   slowest rank      under way"
    for what, of in step.phases.items():
        if not of.max_s:
            continue
        under_way = format_seconds(step.under_way[what]) if what in step.under_way else ""
        yield (
            f"  {step.name_of(what):<26.26} {format_seconds(of.mean_s):>13} "
            f"{format_seconds(of.max_s):>14} {under_way:>14}".rstrip()
        )
    yield from _reason_lines(step)


def _reason_lines(step: ProxyStep) -> Iterator[str]:
    """What the waiting for all axes goes to."""
    parts = [(part, getattr(step, part)) for part in EXPOSED]
    told = [f"{part.removesuffix('_s')} {format_seconds(of)}" for part, of in parts if of]
    if told:
        yield from wrap(f"  of the waiting: {', '.join(told)}", 80)


def simulated_lines(run: ProxyRecord) -> Iterator[str]:
    """What was simulated without any live rank."""
    step, rows = run.step, run.plan.per_rank
    if step is None:
        return
    yield ""
    yield f"on {step.cluster_title}, by {step.fidelity}"
    memory = run.plan.model_memory
    unfit = ", and DOES NOT FIT" if memory and memory.fits is False else ""
    yield f"step: {format_seconds(step.step_time_s.median)} on the slowest rank, simulated{unfit}"
    for sentence in used_lines(step.utilisation, step.expected, step.source):
        yield from wrap(sentence, 80, subsequent_indent="  ", break_on_hyphens=False)
    yield ""
    yield from _phase_lines(step)
    if step.divided_ranks and step.divided_ranks < len(rows):
        yield f"  phases are those of {step.divided_ranks} ranks, weighted by how many are alike"
    yield ""
    yield "bytes a step      simulated: sent     received"
    for one in rows[:_SHOWN]:
        if one.simulated_bytes:
            yield f"  rank {one.rank:<10,} {_both(one.simulated_bytes, 14, 12)}"
    yield from _defect_lines(run)


def _beside_lines(step: ProxyStep, there: ProxyStep) -> Iterator[str]:
    """Measured and simulated side by side; the mean over the ranks where it is of a phase."""
    yield f"on {there.cluster_title}, by {there.fidelity}"
    yield "                                  measured      simulated          error"
    yield _beside_line("step", step.step_time_s.median, there.step_time_s.median)
    for what, of in step.phases.items():
        other = there.phases.get(what)
        if other and (of.mean_s or other.mean_s):
            yield _beside_line(f"  {step.name_of(what)}", of.mean_s, other.mean_s)


def _beside_line(name: str, here: float, there: float) -> str:
    error = error_of(here, there)
    off = "-" if error is None else f"{error:+.1%}"
    return f"{name:<28.28} {format_seconds(here):>13} {format_seconds(there):>14} {off:>14}"


def _byte_lines(run: ProxyRecord) -> Iterator[str]:
    rows = run.plan.per_rank
    wired = rows[0].wire_bytes is not None
    counted = "  counted on TCP: sent   received" if wired else ""
    yield f"bytes a step   predicted: sent     received{counted}"
    for one in rows[:_SHOWN]:
        wire = f" {_both(one.wire_bytes, 20, 10)}" if one.wire_bytes else ""
        yield f"  rank {one.rank:<10} {_both(one.predicted, 14, 12)}{wire}"
    if not wired:
        yield "  nothing went over TCP, where it would be counted"


def _both(moved: Moved, *columns: int) -> str:
    """Bytes sent and received, each in so many columns."""
    both = zip((moved.sent, moved.received), columns, strict=True)
    return " ".join(f"{format_bytes(nbytes):>{wide}}" for nbytes, wide in both)
