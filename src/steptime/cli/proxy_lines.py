"""What the verb proxy prints: the plan, and what was measured and simulated."""

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from steptime.replay.options import ProxyOptions
from steptime.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from steptime.replay.workload import Proxy

_SHOWN = 16
"""So many ranks, or kinds of ranks, are printed; run.json has all."""

_NAME = 34
"""Columns for the name of a call; a longer one has a line of its own."""


def plan_lines(plan: "Proxy", asked: ProxyOptions) -> Iterator[str]:
    """What is to run, before anything does."""
    from steptime.replay.spread import how_cut, memory_lines, spread_lines

    program = plan.program
    sizes = " × ".join(f"{axis} {size:,}" for axis, size in program.axes.items())
    yield f"{plan.model}: {sizes} = {program.ranks:,} ranks"
    if cut := how_cut(program.name):
        yield f"  {cut}"
    if plan.fraction != 1:
        yield f"NOT THE REAL MESSAGES: each is shrunk to {plan.fraction} of its bytes"
    yield f"{plan.compute}: {plan.times}"
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
    if plan.memory_of_model:
        yield from memory_lines(plan.memory_of_model)
    yield ""
    yield from spread_lines(plan.placement, _hosts_assumed(plan, asked))
    yield ""
    yield from _class_lines(plan)


def _hosts_assumed(plan: "Proxy", asked: ProxyOptions) -> str:
    """How many ranks a host is taken to have, where no cluster says it."""
    from steptime.replay.spread import RANKS_OF_A_HOST

    return "" if plan.cluster else f"{asked.ranks_per_host or RANKS_OF_A_HOST} a host"


def _class_lines(plan: "Proxy") -> Iterator[str]:
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
        yield f"and {len(plan.demands) - _SHOWN} more kinds of ranks: see --json"


def answer_lines(run: Mapping[str, Any], asked: ProxyOptions) -> Iterator[str]:
    """What was measured and, beside it, simulated."""
    step = run["step_time_s"]
    yield ""
    yield (
        f"step: {format_seconds(step['median'])}, median of {asked.steps} on the slowest rank, "
        f"measured\n  p10 {format_seconds(step['p10'])}, p90 {format_seconds(step['p90'])}"
    )
    yield ""
    yield from _phase_lines(run)
    yield ""
    if "simulated" in run:
        yield from _beside_lines(run)
        yield ""
    yield from _byte_lines(run)
    if asked.verify:
        yield f"{run['verified']['checked']:,} elements received, and all are right"
    yield (
        f"memory of the processes, measured: {format_bytes(max(run['rss_bytes']))} a rank at most, "
        f"{format_bytes(sum(run['rss_bytes']))} in all"
    )
    yield from defect_lines(run)


def defect_lines(run: Mapping[str, Any]) -> Iterator[str]:
    """What is known to be wrong with an original, as it is followed: the first of it."""
    if "defects" not in run:
        return
    first, *others = run["defects"]
    more = f" And {len(others)} more: see run.json." if others else ""
    yield from wrap(f"known defects of the original: {first}{more}", 80)


def _phase_lines(run: Mapping[str, Any]) -> Iterator[str]:
    yield f"{run['source']:<28} mean of ranks   slowest rank      under way"
    for what, of in run["phases"].items():
        if not of["max_s"]:
            continue
        under_way = format_seconds(run["under_way"][what]) if what in run["under_way"] else ""
        yield (
            f"  {_name_of(what, run):<26.26} {format_seconds(of['mean_s']):>13} "
            f"{format_seconds(of['max_s']):>14} {under_way:>14}".rstrip()
        )


def _name_of(phase: str, run: Mapping[str, Any]) -> str:
    return f"waiting for {phase or 'nothing'}" if phase in run["under_way"] else phase


def simulated_lines(run: Mapping[str, Any]) -> Iterator[str]:
    """What was simulated without any live rank."""
    yield ""
    yield f"on {run['cluster_title']}, by {run['fidelity']}"
    yield f"step: {format_seconds(run['step_time_s']['median'])} on the slowest rank, simulated"
    yield ""
    yield from _phase_lines(run)
    if run["divided_ranks"] < run["ranks"]:
        yield f"  phases are those of {run['divided_ranks']} ranks, weighted by how many are alike"
    yield ""
    yield "bytes a step      simulated: sent     received"
    for one in run["per_rank"][:_SHOWN]:
        moved = one["simulated_bytes"]
        yield (
            f"  rank {one['rank']:<10,} {format_bytes(moved['sent']):>14} "
            f"{format_bytes(moved['received']):>12}"
        )
    yield from defect_lines(run)


def _beside_lines(run: Mapping[str, Any]) -> Iterator[str]:
    """Measured and simulated side by side; the mean over the ranks where it is of a phase."""
    there, error = run["simulated"], run["error"]
    yield f"on {there['cluster_title']}, by {there['fidelity']}"
    yield "                                  measured      simulated          error"
    both = run["step_time_s"]["median"], there["step_time_s"]["median"]
    yield _beside_line("step", *both, error["step_time"])
    for what, of in run["phases"].items():
        other = there["phases"].get(what)
        if other and (of["mean_s"] or other["mean_s"]):
            name = "  " + _name_of(what, run)
            yield _beside_line(name, of["mean_s"], other["mean_s"], error["phases"][what])


def _beside_line(name: str, here: float, there: float, error: float | None) -> str:
    off = "-" if error is None else f"{error:+.1%}"
    return f"{name:<28.28} {format_seconds(here):>13} {format_seconds(there):>14} {off:>14}"


def _byte_lines(run: Mapping[str, Any]) -> Iterator[str]:
    wired = "wire_bytes" in run["per_rank"][0]
    counted = "  counted on TCP: sent   received" if wired else ""
    yield f"bytes a step   predicted: sent     received{counted}"
    for one in run["per_rank"][:_SHOWN]:
        sent = sum(of["sent"] for of in one["predicted_bytes"].values())
        received = sum(of["received"] for of in one["predicted_bytes"].values())
        line = f"  rank {one['rank']:<10} {format_bytes(sent):>14} {format_bytes(received):>12}"
        if wired:
            wire = one["wire_bytes"]
            line += f" {format_bytes(wire['sent']):>20} {format_bytes(wire['received']):>10}"
        yield line
    if not wired:
        yield "  nothing went over TCP, where it would be counted"
