"""Sensitivity: which link or device bounds a step, by simulating it with each slightly changed.

Kinds of links and devices are made faster: what the step gains is what an upgrade is worth. A
single link or device among others that are as busy cannot speed the step up when it alone gets
faster, but slows it down when it gets slower: so single ones are made slower.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats, Ints
from steptime.cluster import Cluster
from steptime.cluster.cluster import Fabric
from steptime.cluster.what_if import ALL, Change, changed

CHANGE = 0.01
"""The relative change: enough to be above rounding, too little to move the bound elsewhere."""

_MOST_KINDS = 6
_MOST_LINKS = 3
_MOST_DEVICES = 2
_STICKS_OUT = 1.005  # a device is asked about alone when it is busier than the median by this


@dataclass(frozen=True, eq=False)
class Probe:
    """A changed cluster, what was changed in words, and whether it was made faster."""

    what: str
    kind: str
    faster: bool
    cluster: Cluster


@dataclass(frozen=True)
class Sensitivity:
    """How far ``what`` bounds the step.

    ``kind``: ``compute``, ``reduction``, ``bandwidth`` or ``latency``. ``elasticity``: the fraction
    of the step that is saved for each fraction by which ``what`` is made faster, or lost where it
    is made slower: 1 where it alone is the step's time and 0 where it does not matter.
    """

    what: str
    kind: str
    faster: bool
    elasticity: float


def probes(cluster: Cluster, link_bytes: Floats, busy: Floats, devices: Ints) -> list[Probe]:
    """The changes that are worth simulating.

    Faster: all devices, the bandwidths and latencies of all links, and each kind of link in use.
    Slower: the most used links one by one, and the devices that compute longer than the others.
    ``link_bytes``: what each link carries in a step, shape (links,); ``busy``: seconds that each
    rank computes, and ``devices`` where it is, both of shape (ranks,).
    """
    found = [_probe(cluster, "all devices", "compute", ALL)]
    if np.isfinite(cluster.device.reduction):
        found.append(_probe(cluster, "all devices", "reduction", ALL))
    found += [_probe(cluster, "all links", kind, ALL) for kind in ("bandwidth", "latency")]
    need = np.asarray(link_bytes / cluster.links.bandwidth)  # seconds for its bytes, shape (links,)
    kinds = [(what, links) for what, links in link_kinds(cluster) if need[links].any()]
    kinds.sort(key=lambda kind: -need[kind[1]].max())
    if len(kinds) > 1:
        found += [_probe(cluster, what, "bandwidth", links) for what, links in kinds[:_MOST_KINDS]]
    busiest = np.argsort(-need, kind="stable")[:_MOST_LINKS].astype(np.int32)
    found += [
        _probe(cluster, cluster.links.names[link], "bandwidth", busiest[at : at + 1], faster=False)
        for at, link in enumerate(busiest.tolist())
        if need[link]
    ]
    usual = float(np.median(busy))
    found += [
        _probe(cluster, f"device of rank {rank}", "compute", devices[[rank]], faster=False)
        for rank in np.argsort(-busy, kind="stable")[:_MOST_DEVICES].tolist()
        if busy[rank] > _STICKS_OUT * usual
    ]
    return found


def _probe(
    cluster: Cluster, what: str, kind: str, where: slice | Ints, *, faster: bool = True
) -> Probe:
    change = 1 + CHANGE if faster else 1 - CHANGE
    factor = 1 / change if kind == "latency" else change
    return Probe(what, kind, faster, changed(cluster, Change(kind, factor=factor), where))


def sensitivities(
    base_s: float, candidates: Sequence[Probe], step_s: Callable[[Cluster], float]
) -> Iterator[Sensitivity]:
    """The result of each probe in turn; ``step_s`` simulates a step on a cluster, in seconds."""
    for probe in candidates:
        change = step_s(probe.cluster) - base_s
        lost = -change if probe.faster else change
        yield Sensitivity(
            probe.what, probe.kind, probe.faster, lost / base_s / CHANGE if base_s else 0.0
        )


def link_kinds(cluster: Cluster) -> list[tuple[str, Ints]]:
    """The links of each kind: a label and their numbers.

    Links of one label in all hosts are of one kind, and so are both directions.
    """
    inside = _labels(cluster.inside)
    labels = np.concatenate([np.tile(inside, cluster.hosts), _labels(cluster.network)])
    if labels.size != cluster.links.bandwidth.size:  # a cluster made by hand, without fabrics
        return []
    return [
        (f"all {label} links", np.flatnonzero(labels == label).astype(np.int32))
        for label in dict.fromkeys(labels.tolist())
    ]


def _labels(fabric: Fabric | None) -> NDArray[np.str_]:
    """The label of each link of a fabric, shape (links,)."""
    if fabric is None:
        return np.empty(0, np.str_)
    texts = [text.removesuffix(" up").removesuffix(" down") for text, _ in fabric.labels]
    return np.repeat(np.array(texts, np.str_), [count for _, count in fabric.labels])
