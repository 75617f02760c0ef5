"""Picture: a cluster as SVG, hosts below and switches above; of a large one, its first and last."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import sqrt

import numpy as np

from steptime.cluster.cluster import NO_LINK, Cluster, Fabric
from steptime.cluster.summary import LinkGroup, link_groups, stem
from steptime.units import format_rate, format_seconds

_LEFT, _MARGIN = 200, 16  # the left column says what the links are
_DEVICE, _GAP, _HEIGHT, _RISE = 34, 8, 26, 74
_MOST_DEVICES, _MOST_HOSTS, _MOST_SWITCHES = 8, 4, 16
_CHARACTER, _TITLE_CHARACTER = 6.6, 8.5  # the width of one

# Okabe & Ito's blue and vermillion, and grounds that suit both settings of the reader.
_STYLE = """
svg { --ink: #1b1b1b; --aside: #5b5b5b; --paper: #fff; --box: #f1f3f5; --switch: #dfe3e8;
  --inside: #0072b2; --network: #d55e00; font: 12px system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { svg { --ink: #eee; --aside: #a8a8a8; --paper: #16181b;
  --box: #22262b; --switch: #343a41; --inside: #56b4e9; --network: #ff8a3d; } }
.paper { fill: var(--paper); } .box { fill: var(--box); stroke: var(--aside); }
.switch { fill: var(--switch); stroke: var(--aside); } .device { fill: var(--paper); }
.device, .nic { stroke: var(--ink); } .nic { fill: var(--network); }
path { fill: none; } .inside { stroke: var(--inside); } .network { stroke: var(--network); }
text { fill: var(--ink); text-anchor: middle; } .aside { fill: var(--aside); font-size: 11px; }
.left { text-anchor: start; } .title { font-size: 15px; font-weight: 600; text-anchor: start; }
"""


@dataclass(frozen=True)
class _Spot:
    """The middle of a shape and half its size."""

    x: float
    y: float
    half_width: float
    half_height: float


@dataclass(frozen=True)
class _Layer:
    """What a fabric adds to the picture: where its nodes are, and how high it gets."""

    spots: Mapping[int, _Spot]
    shapes: Sequence[str]
    top: float


def svg(cluster: Cluster) -> str:
    """The picture, as one SVG text that needs nothing else and suits light and dark pages."""
    hosts = _folded(cluster.hosts, _MOST_HOSTS)
    width = _host_width(cluster)
    middles = {h: _LEFT + (width + 2 * _GAP) * (place + 0.5) for place, h in enumerate(hosts)}
    shapes: list[str] = []
    if cluster.hosts > len(hosts):
        middles[hosts[-1]] += 3 * _GAP  # room for the dots
        between = (middles[hosts[-2]] + middles[hosts[-1]]) / 2
        shapes.append(_text(between, -_HEIGHT, "…", ""))
    top = 0.0
    nics: dict[int, _Spot] = {}
    for host in hosts:
        drawn, top, its = _host(cluster, host, middles[host], width)
        shapes += drawn
        nics |= its
        if cluster.inside and host == 0:
            inside = _fabric(
                cluster.inside, _devices(cluster, middles[host]), "inside", _widest(cluster)
            )
            shapes += _legend(cluster, cluster.inside, inside)
    right = max(
        max(middles.values()) + width / 2 + _MARGIN,
        2 * _MARGIN + _TITLE_CHARACTER * len(cluster.title),
    )
    if cluster.inside:
        beyond = max(spot.x + spot.half_width for spot in inside.spots.values()) - middles[0]
        right = max(right, max(middles.values()) + beyond + _MARGIN)
    if cluster.network:
        layer = _fabric(cluster.network, nics, "network", _widest(cluster))
        shapes += [*layer.shapes, *_legend(cluster, cluster.network, layer)]
        top = min(top, layer.top) - _HEIGHT
        right = max(right, *(spot.x + spot.half_width + _MARGIN for spot in layer.spots.values()))
    return _page(cluster, top - 3 * _HEIGHT, right, 2.2 * _HEIGHT, shapes)


def _page(cluster: Cluster, top: float, right: float, bottom: float, shapes: list[str]) -> str:
    height = bottom - top
    counts = f"{cluster.devices // cluster.hosts} × {cluster.device.name}"
    if cluster.hosts > 1:
        counts = f"{cluster.hosts:,} hosts of {counts}"
    title = [
        _text(_MARGIN, top + 24, cluster.title, "title"),
        _text(_MARGIN, top + 42, counts, "aside left"),
    ]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {top:.0f} {right:.0f} {height:.0f}" '
        f'width="{right:.0f}" height="{height:.0f}" role="img">',
        f"<title>{escape(cluster.title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" x="0" y="{top:.0f}" width="{right:.0f}" height="{height:.0f}"/>',
        *title,
        *shapes,
        "</svg>\n",
    ])  # fmt: skip


def _devices(cluster: Cluster, middle: float) -> dict[int, _Spot]:
    """The devices of a host that are shown."""
    shown = _folded(cluster.devices // cluster.hosts, _MOST_DEVICES)
    first = middle - (len(shown) - 1) / 2 * (_DEVICE + _GAP)
    return {
        device: _Spot(first + place * (_DEVICE + _GAP), 0, _DEVICE / 2, _HEIGHT / 2)
        for place, device in enumerate(shown)
    }


def _host(
    cluster: Cluster, host: int, middle: float, width: float
) -> tuple[list[str], float, dict[int, _Spot]]:
    """A host: its shapes, its top, and its NICs as ends of the network."""
    count = cluster.devices // cluster.hosts
    devices = _devices(cluster, middle)
    shapes: list[str] = []
    top = 0.0
    if cluster.inside:
        layer = _fabric(cluster.inside, devices, "inside", _widest(cluster))
        shapes, top = list(layer.shapes), layer.top
    for device, spot in devices.items():
        shapes.append(_box(spot, f"{device}", "device"))
        slow = cluster.speed[host * count + device]
        if slow != 1:
            shapes.append(_text(spot.x, _HEIGHT, f"×{slow:g}", "aside"))
    if len(devices) < count:
        *_, before, last = devices.values()
        shapes.append(_text((before.x + last.x) / 2, _HEIGHT, "…", "aside"))
    top -= _HEIGHT
    box = _Spot(middle, (top + 1.3 * _HEIGHT) / 2, width / 2, (1.3 * _HEIGHT - top) / 2)
    shapes.insert(0, _box(box, "", "box"))
    shapes.append(_text(middle, 1.3 * _HEIGHT + 15, f"host {host}", ""))
    per_host = cluster.network.ends // cluster.hosts if cluster.network else 0
    nics = {
        host * per_host + nic: _Spot(middle + ((nic + 0.5) / per_host - 0.5) * width, top, 4, 4)
        for nic in range(per_host)
    }
    return [*shapes, *(_box(spot, "", "nic") for spot in nics.values())], top, nics


def _fabric(fabric: Fabric, ends: Mapping[int, _Spot], kind: str, widest: float) -> _Layer:
    """The switches that ends use among themselves, in levels above them, and the links between."""
    links = _between(fabric, list(ends))
    spots = dict(ends)
    seen = level = set(ends)
    tops = [min(spot.y for spot in ends.values())]
    while above := {b for a, b in links if a in level and b >= fabric.ends} - seen:
        seen = seen | above
        level = set(_kept(sorted(above)))
        tops.append(tops[-1] - _RISE)
        row = _row(fabric, sorted(level), spots, links, tops[-1])
        spots |= row
    shown = [
        ((a, b), rate) for (a, b), rate in links.items() if a < b and a in spots and b in spots
    ]
    lines = [
        _line(spots[a], spots[b], kind, 1 + 5 * sqrt(min(rate / widest, 1)))
        for (a, b), rate in shown
    ]
    boxes = [
        _box(spot, _drawn_name(fabric.nodes[node]), "switch")
        for node, spot in spots.items()
        if node not in ends
    ]
    arcs = any(spots[a].y == spots[b].y == tops[-1] for (a, b), _ in shown)
    return _Layer(spots, [*lines, *boxes], tops[-1] - (_RISE * 0.8 if arcs else 0))


def _row(
    fabric: Fabric,
    nodes: Sequence[int],
    spots: Mapping[int, _Spot],
    links: Mapping[tuple[int, int], float],
    y: float,
) -> dict[int, _Spot]:
    """Switches of one height: each above what it joins, or spread where they would overlap."""
    halves = [4 + _CHARACTER * len(_drawn_name(fabric.nodes[node])) / 2 for node in nodes]
    wanted = []
    for node in nodes:
        below = [spots[a].x for a, b in links if b == node and a in spots]
        wanted.append(sum(below) / len(below))
    apart = 2 * max(halves) + _GAP
    order = sorted(range(len(nodes)), key=lambda place: (wanted[place], place))
    xs = [wanted[place] for place in order]
    if any(after - before < apart for before, after in pairwise(xs)):
        span = max(xs[-1] - xs[0], apart * (len(xs) - 1))
        middle = (xs[0] + xs[-1]) / 2
        each = span / max(len(xs) - 1, 1)
        first = max(middle - span / 2, _LEFT + halves[0])
        xs = [first + each * place for place in range(len(xs))]
    return {
        nodes[place]: _Spot(x, y, halves[place], _HEIGHT / 2 - 2)
        for place, x in zip(order, xs, strict=True)
    }


def _between(fabric: Fabric, ends: Sequence[int]) -> dict[tuple[int, int], float]:
    """Bandwidth between each two nodes that are joined, in both orders; 0 for a joint.

    Of the links that messages between these ends take, and the way back.
    """
    same = _same_nodes(fabric)
    src, dst = np.meshgrid(np.array(ends, np.int32), np.array(ends, np.int32))
    apart = src != dst
    links = np.unique(fabric.route(src[apart], dst[apart]))
    found: dict[tuple[int, int], float] = {}
    for link in links[links != NO_LINK].tolist():
        a, b = same[int(fabric.tails[link])], same[int(fabric.heads[link])]
        found[a, b] = found[b, a] = float(fabric.links.bandwidth[link])
    for tail, head in fabric.joints:
        a, b = same[tail], same[head]
        found[a, b] = found[b, a] = 0.0
    return {pair: rate for pair, rate in found.items() if pair[0] != pair[1]}


def _same_nodes(fabric: Fabric) -> list[int]:
    """Of each node the first with its name in the picture: the two sides of a bus are one."""
    first: dict[str, int] = {}
    return [first.setdefault(_drawn_name(name), node) for node, name in enumerate(fabric.nodes)]


def _legend(cluster: Cluster, fabric: Fabric, layer: _Layer) -> list[str]:
    """What the links of a fabric give, in the left column, each beside its links."""
    where = "host" if fabric is cluster.inside else "network"
    groups = [group for group in link_groups(cluster) if group.where == where]
    same = _same_nodes(fabric)
    texts: list[str] = []
    taken: list[float] = []
    first = 0
    for group in groups:
        links = range(first, first := first + dict(fabric.labels)[group.label])
        twin = [other for other in groups if stem(other.label) == stem(group.label)]
        alike = len(twin) > 1 and len({_rates(other) for other in twin}) == 1
        if alike and group is not twin[0]:
            continue
        y = _beside(fabric, same, links, layer)
        while any(abs(y - other) < 30 for other in taken):
            y += 2
        taken.append(y)
        label = (
            f"{stem(group.label) if alike else group.label}, {group.number:,}{' each way' * alike}"
        )
        texts.append(_text(_MARGIN, y - 4, label, "aside left"))
        texts.append(_text(_MARGIN, y + 10, _rates(group), "left"))
    return texts


def _beside(fabric: Fabric, same: Sequence[int], links: Sequence[int], layer: _Layer) -> float:
    """The height of the first of some links that is shown."""
    for link in links:
        a, b = same[int(fabric.tails[link])], same[int(fabric.heads[link])]
        if a in layer.spots and b in layer.spots:
            return (layer.spots[a].y + layer.spots[b].y) / 2
    return layer.top


def _rates(group: LinkGroup) -> str:
    def span(least: float, most: float, words: str, other: str) -> str:
        return words if least == most else f"{words} – {other}"

    rate = span(*group.bandwidth, *(format_rate(rate) for rate in group.bandwidth))
    latency = span(*group.latency, *(format_seconds(seconds) for seconds in group.latency))
    return f"{rate}, {latency}"


def _widest(cluster: Cluster) -> float:
    bandwidth = cluster.links.bandwidth
    return float(bandwidth[np.isfinite(bandwidth)].max(initial=1.0))


def _host_width(cluster: Cluster) -> float:
    shown = len(_folded(cluster.devices // cluster.hosts, _MOST_DEVICES))
    return max(shown, 2) * (_DEVICE + _GAP) + 3 * _GAP


def _folded(count: int, most: int) -> list[int]:
    """The numbers to show of so many: the first ones and the last."""
    return list(range(count)) if count <= most else [*range(most - 1), count - 1]


def _kept(switches: Sequence[int]) -> Sequence[int]:
    """Of many switches the first and the last ones."""
    if len(switches) <= _MOST_SWITCHES:
        return switches
    return [*switches[: _MOST_SWITCHES // 2], *switches[-_MOST_SWITCHES // 2 :]]


def _drawn_name(name: str) -> str:
    return name.removesuffix(" in").removesuffix(" out")


def _line(a: _Spot, b: _Spot, kind: str, width: float) -> str:
    if a.y == b.y:  # an arc over what lies between
        lift = a.y - a.half_height - min(18 + abs(a.x - b.x) / 6, _RISE * 0.8)
        top = a.y - a.half_height
        way = f"M{a.x:.1f} {top:.1f} Q{(a.x + b.x) / 2:.1f} {lift:.1f} {b.x:.1f} {top:.1f}"
    else:
        low, high = (a, b) if a.y > b.y else (b, a)
        way = f"M{low.x:.1f} {low.y - low.half_height:.1f} "
        way += f"L{high.x:.1f} {high.y + high.half_height:.1f}"
    return f'<path class="{kind}" stroke-width="{width:.1f}" d="{way}"/>'


def _box(spot: _Spot, label: str, kind: str) -> str:
    x, y = spot.x - spot.half_width, spot.y - spot.half_height
    shape = (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{2 * spot.half_width:.1f}" '
        f'height="{2 * spot.half_height:.1f}" rx="3"/>'
    )
    return shape + (_text(spot.x, spot.y + 4, label, "") if label else "")


def _text(x: float, y: float, words: str, kind: str) -> str:
    classes = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{classes}>{escape(words)}</text>'
