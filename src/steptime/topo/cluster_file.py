"""Writing a cluster file of what was measured: one host whose pairs each have their own link."""

from collections.abc import Mapping, Sequence
from typing import Any


def cluster_file(title: str, source: str, device: Mapping[str, Any], pairs: Sequence[Any]) -> str:
    """The text of a cluster file, which ``cluster_named`` reads.

    ``device``: name, flops by dtype (FLOP/s), memory (bytes), memory_bandwidth and reduction
    (bytes/s). ``pairs``: every two ranks, both ways, each with src, dst, latency_s and bandwidth
    (bytes/s). Ranks are devices of one host, whichever hosts they were on. Of a single rank there
    are no pairs.
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
        "",
        "[host]",
        f"devices = {ranks}",
    ]
    if pairs:
        lines += ["", "[inside]", 'kind = "pairs"', "pairs = ["]
        lines += [
            f'  {{ from = {pair.src}, to = {pair.dst}, bandwidth = "{_rate(pair.bandwidth)}", '
            f'latency = "{pair.latency_s * 1e6:.4g}us" }},'
            for pair in pairs
        ]
        lines.append("]")
    return "\n".join(lines) + "\n"


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.4g}GB/s"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
