"""What ranks measured of their machine, in lines of text: pairs, device and calls."""

from collections.abc import Iterator, Mapping
from typing import Any

from steptime.report.links import link_lines
from steptime.units import format_bytes, format_flops, format_rate, format_seconds


def measured_lines(run: Mapping[str, Any], columns: int) -> list[str]:
    """The lines of a ``run`` of topo --measure; matrices where so many columns hold them."""
    device = run["device"]
    rates = [f"{dtype} {format_flops(flops)}" for dtype, flops in device["flops"].items()]
    return [
        *link_lines(run["pairs"], columns),
        f"device (measured, all ranks at work): {', '.join(rates)},",
        f"  copy {format_rate(device['memory_bandwidth'])}, add {format_rate(device['reduction'])}",
        *_call_lines(run),
    ]


def _call_lines(run: Mapping[str, Any]) -> Iterator[str]:
    if "calls" not in run:
        return
    yield f"all pairs at once (measured): {format_rate(run['together_GBps'] * 1e9)} in all,"
    yield f"  a rank sends and receives {format_rate(run['port_GBps'] * 1e9)} at once"
    sizes = [format_bytes(size) for size in run["calls"][0]["sizes"]]
    yield "calls (measured)" + "".join(f"{size:>9}" for size in sizes)
    for one in run["calls"]:
        times = "".join(f"{format_seconds(seconds):>9}" for seconds in one["seconds"])
        name = f"{one['kind']} {one['ranks']}"
        yield f"{name:<16}{times}"
