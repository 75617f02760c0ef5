"""An emulated cluster in words: what was set up, and what crossed its links."""

from collections.abc import Iterator
from typing import Any

from steptime.emulate.emulate import Answer
from steptime.emulate.plan import Plan
from steptime.units import format_bytes, format_rate, format_seconds

_FEW = 64 << 10  # bytes that joining alone moves


def sentences_before(plan: Plan) -> Iterator[str]:
    """What is set up."""
    hosts = plan.hosts
    out, back = hosts[0].out, hosts[0].back
    rates = format_rate(out.rate)
    if back.rate != out.rate:
        rates += f" out and {format_rate(back.rate)} in"
    rails = f", on {hosts[0].rail_count} rails" if hosts[0].rail_count > 1 else ""
    slower = f", {plan.dilation:g} times slower than its own" if plan.dilation != 1 else ""
    yield (
        f"{plan.cluster}: {len(hosts)} hosts, {plan.world_size} ranks; "
        f"links of {rates} each way{rails}{slower}; TCP by {plan.congestion}"
    )
    yield from plan.notes


def sentences_after(plan: Plan, answer: Answer) -> Iterator[str]:
    """What crossed the links, and what happened to them."""
    for fault in answer.faults:
        yield f"fault: {fault['what']}"
    latency = plan.hosts[0].out.latency + plan.hosts[0].back.latency
    if latency:
        yield (
            f"Latency is this machine's: {format_seconds(answer.latency)} from host to host; the "
            f"{format_seconds(latency)} of the cluster's links were not added."
        )
    links = answer.bytes_by_link
    total = sum(links[host.out.name] for host in plan.hosts)
    busiest = max(links, key=lambda name: links[name])
    if plan.world_size > 1 and plan.command and total < _FEW:
        yield (
            f"Only {format_bytes(total)} crossed the links: the command communicated some other "
            "way, or not at all, and its times say nothing of them."
        )
    else:
        yield (
            f"{format_bytes(total)} crossed the links; most, {format_bytes(links[busiest])}, "
            f"{busiest}"
        )


def record(plan: Plan, answer: Answer) -> dict[str, Any]:
    """The JSON of a command that has run."""
    return {
        "verb": "emulate",
        "cluster": plan.cluster,
        "hosts": len(plan.hosts),
        "ranks": plan.world_size,
        "command": list(plan.command),
        "started": plan.start,
        "status": answer.status,
        "time_dilation": plan.dilation,
        "congestion_control": plan.congestion,
        "rails": plan.hosts[0].rail_count,
        "ceiling_bytes_per_s": answer.ceiling,
        "latency_s": answer.latency,
        "links": [
            {"name": shape.name, "rate": shape.rate}
            for host in plan.hosts
            for shape in (host.out, host.back)
        ],
        "bytes_by_link": [
            {"name": name, "bytes": count} for name, count in answer.bytes_by_link.items()
        ],
        "faults": [dict(fault) for fault in answer.faults],
        "not_emulated": list(plan.notes),
    }
