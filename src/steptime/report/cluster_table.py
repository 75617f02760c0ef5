"""A cluster in the terminal."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.cluster.bisection import bisection
from steptime.cluster.cluster import Cluster
from steptime.cluster.summary import link_groups, path_groups
from steptime.units import format_bytes, format_flops, format_rate, format_seconds

_MOST_PATHS = 8
_MOST_PLACES = 12
_ASIDE = "dim"


def print_clusters(console: Console, shown: Sequence[Cluster]) -> None:
    """Print the names of clusters and how large they are."""
    table = _table(["cluster", "hosts", "devices", ""], right=(1, 2))
    for one in shown:
        table.add_row(Text(one.name, "bold"), f"{one.hosts:,}", f"{one.devices:,}", one.title)
    console.print(table)


def print_cluster(console: Console, shown: Cluster) -> None:
    """Print what a cluster is made of, its bisection and what lies between its devices."""
    console.print(Text(f"{shown.name}: {shown.title}", "bold"))
    console.print(Text(shown.source, _ASIDE))
    console.print()
    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True)
    for label, words in _facts(shown):
        facts.add_row(Text(label, _ASIDE), words)
    console.print(facts)
    groups = link_groups(shown)
    if groups:
        console.print()
        table = _table(["links", "", "number", "bandwidth", "latency each"], right=(2, 3, 4))
        for group in groups:
            row = [group.where, group.label, f"{group.number:,}"]
            row += [_span(group.bandwidth, format_rate), _span(group.latency, format_seconds)]
            table.add_row(*row)
        console.print(table)
    paths = path_groups(shown)
    if paths:
        console.print()
        table = _table(
            ["from device 0 to", "by", "links", "latency", "alone at"], right=(0, 2, 3, 4)
        )
        for path in paths[:_MOST_PATHS]:
            devices = f"{path.devices:,} device{'s' * (path.devices != 1)}"
            row = [devices, ", ".join(path.by), f"{path.links}"]
            table.add_row(*row, format_seconds(path.latency), format_rate(path.bandwidth))
        console.print(table)
    if len(paths) > _MOST_PATHS:
        console.print(Text(f"⋮ and {len(paths) - _MOST_PATHS} other ways", _ASIDE))


def _facts(shown: Cluster) -> Iterator[tuple[str, str]]:
    device = shown.device
    hosts = f"{shown.hosts:,} host{'s' * (shown.hosts != 1)}"
    yield "hosts", f"{hosts} of {shown.devices // shown.hosts} × {device.name}"
    rates = ", ".join(f"{dtype} {format_flops(rate)}" for dtype, rate in device.flops.items())
    yield "computing", f"{rates} at peak; large products reach {device.efficiency:.0%}"
    yield "memory", f"{format_bytes(device.memory)} at {format_rate(device.memory_bandwidth)}"
    if device.reduction < float("inf"):
        yield "reducing", f"{format_rate(device.reduction)} of what arrives is added up"
    slow = [(place, speed) for place, speed in enumerate(shown.speed.tolist()) if speed != 1]
    if slow:
        words = [f"{_place(shown, place)} at {speed:g}" for place, speed in slow]
        yield "speed", _some(words) + " of the others' 1"
    if shown.inside:
        yield "in a host", shown.inside.kind
    if shown.network:
        yield "network", shown.network.kind.replace("_", " ")
    if shown.send_buffer:
        yield "sending", f"{format_bytes(shown.send_buffer)} of a message to another host are held"
    if shown.unfairness:
        yield (
            "sharing",
            f"unevenly: a message counts as {1 - shown.unfairness:g} to {1 + shown.unfairness:g}",
        )
    yield "ranks on", _some([_place(shown, place) for place in shown.order.tolist()])
    if shown.devices > 1:
        between = "hosts" if shown.network else "devices"
        yield (
            "bisection",
            f"{format_rate(bisection(shown))} between halves of the {between} (computed)",
        )


def _place(shown: Cluster, device: int) -> str:
    """A device as placements name it, host.device."""
    per_host = shown.devices // shown.hosts
    return f"{device // per_host}.{device % per_host}"


def _some(words: Sequence[str]) -> str:
    """The first of many."""
    more = f" … ({len(words):,} in all)" if len(words) > _MOST_PLACES else ""
    return ", ".join(words[:_MOST_PLACES]) + more


def _span(ends: tuple[float, float], words: Any) -> str:
    least, most = ends
    return str(words(most)) if least == most else f"{words(least)} – {words(most)}"


def _table(columns: Sequence[str], right: Sequence[int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place in right else "left")
    return table
