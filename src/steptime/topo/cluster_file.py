"""Writing a cluster file from measurements: one host with a link for each pair of ranks."""

from collections.abc import Mapping, Sequence
from typing import Any

from steptime.cluster import CallTimes


def cluster_file(
    title: str,
    source: str,
    device: Mapping[str, Any],
    pairs: Sequence[Any],
    together: float | None = None,
    port: float | None = None,
    cores: float | None = None,
) -> str:
    """The text of a cluster file, which ``cluster_named`` reads.

    ``device``: name, flops by dtype (FLOP/s), memory (bytes), memory_bandwidth and reduction
    (bytes/s). ``pairs``: every two ranks, both ways, each with src, dst, latency_s and bandwidth
    (bytes/s); none for a single rank. Ranks become devices of one host, whichever hosts they were
    on. ``together``: the bytes/s of all pairs at once, and ``port``: those that a device sends and
    receives together; None where they are no limit. ``cores``: how many ranks can compute at one
    time; None where none shares with another what it computes on.
    """
    ranks = 1 + max((pair.dst for pair in pairs), default=0)
    rates = ", ".join(
        f'{dtype} = "{flops / 1e9:.4g}GFLOP/s"' for dtype, flops in device["flops"].items()
    )
    lines = [
        f"title = {_quoted(title)}",
        f"source = {_quoted(source)}",
        "",
        "[device]",
        f"name = {_quoted(device['name'])}",
        f"flops = {{ {rates} }}",
        f'memory = "{int(device["memory"])}B"',
        f'memory_bandwidth = "{_rate(device["memory_bandwidth"])}"',
        f'reduction = "{_rate(device["reduction"])}"',
        'basis = "measured"',
        "",
        "[host]",
        f"devices = {ranks}",
        *([f"cores = {cores:g}"] if cores else []),
    ]
    if pairs:
        lines += ["", "[inside]", 'kind = "pairs"']
        lines += [
            f'{key} = {{ bandwidth = "{_rate(rate)}", latency = "0us" }}'
            for key, rate in (("together", together), ("port", port))
            if rate
        ]
        lines.append("pairs = [")
        lines += [
            f'  {{ from = {pair.src}, to = {pair.dst}, bandwidth = "{_rate(pair.bandwidth)}", '
            f'latency = "{_time(pair.latency_s)}" }},'
            for pair in pairs
        ]
        lines.append("]")
    return "\n".join(lines) + "\n"


def calls_section(calls: Mapping[str, Sequence[CallTimes]]) -> str:
    """The section of the file with the measured times of the library's calls."""
    lines = ["", "[calls]"]
    for kind, measured in calls.items():
        lines.append(f"{kind} = [")
        for one in measured:
            keys = [f"ranks = {one.ranks}"]
            keys += [f'algorithm = "{one.algorithm}"'] if one.algorithm else []
            keys.append("sizes = [" + ", ".join(f'"{size:.0f}B"' for size in one.sizes) + "]")
            parts = ("late", "late_beside", "work", "rest")
            for key, times in (("times", one.seconds), *((p, getattr(one, p)) for p in parts)):
                if times:
                    keys.append(f"{key} = [" + ", ".join(f'"{_time(s)}"' for s in times) + "]")
            lines.append(f"  {{ {', '.join(keys)} }},")
        lines.append("]")
    return "\n".join(lines) + "\n"


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.4g}GB/s"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.4g}ms" if seconds >= 1e-3 else f"{seconds * 1e6:.4g}us"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
