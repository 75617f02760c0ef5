"""What if: a cluster with the figures of its network or devices changed."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from steptime.arrays import Floats, Ints
from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.units import parse_rate, parse_seconds

_FACTOR = re.compile(r"(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*[x×]")
_FORMS = {
    "bandwidth": "2x, 100GB/s or inf",
    "latency": "0.5x, 5us or 0",
    "compute": "1.5x or inf",
    "reduction": "2x, 10GB/s or inf",
}
QUANTITIES = tuple(_FORMS)
"""What can be changed of a cluster."""


@dataclass(frozen=True)
class Change:
    """A change of one quantity of a cluster: by ``factor`` or, where given, to ``value``.

    ``quantity``: ``bandwidth`` and ``latency`` of links, ``compute``, the speed of devices, or
    ``reduction``, their rate of adding up what arrives. ``value`` is in bytes/s or seconds.
    """

    quantity: str
    factor: float = 1.0
    value: float | None = None

    def of(self, old: Floats) -> Floats:
        """The changed figures, of the same shape as the old."""
        return self.factor * old if self.value is None else np.full_like(old, self.value)


IDEAL = "bandwidth=inf,latency=0"
"""A network of infinite bandwidth and no latency.

What is then left of a step's communication is waiting for other ranks, as in POP's split of the
communication efficiency into transfer and serialisation (Rosas, Giménez, Labarta 2014).
"""

ALL = slice(None)


def parse_what_if(text: str) -> tuple[Change, ...]:
    """The changes of a text such as ``bandwidth=2x,latency=0,compute=1.5x``.

    Raises UsageError when it is none, or names a quantity twice.
    """
    changes = [_parse_change(part.strip()) for part in text.split(",")]
    names = [change.quantity for change in changes]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise UsageError(f"--what-if '{text}' changes {twice[0]} twice: leave one out")
    return tuple(changes)


def what_if(cluster: Cluster, changes: Iterable[Change]) -> Cluster:
    """The cluster with every change applied to all its links or devices."""
    for change in changes:
        cluster = changed(cluster, change, ALL)
    return cluster


def ideal(cluster: Cluster) -> Cluster:
    """The cluster with the network IDEAL."""
    return what_if(cluster, parse_what_if(IDEAL))


def changed(cluster: Cluster, change: Change, where: slice | Ints) -> Cluster:
    """The cluster with a change applied to links or, for ``compute``, devices, by number.

    A change of ``reduction`` applies to all devices.
    """
    if change.quantity == "compute":
        return replace(cluster, speed=_changed(cluster.speed, change, where))
    if change.quantity == "reduction":
        reduction = float(change.of(np.array([cluster.device.reduction]))[0])
        return replace(cluster, device=replace(cluster.device, reduction=reduction))
    links = cluster.links
    if change.quantity == "bandwidth":
        links = replace(links, bandwidth=_changed(links.bandwidth, change, where))
    else:
        links = replace(links, latency=_changed(links.latency, change, where))
    return replace(cluster, links=links)


def _changed(figures: Floats, change: Change, where: slice | Ints) -> Floats:
    figures = figures.copy()
    figures[where] = change.of(figures[where])
    return figures


def _parse_change(text: str) -> Change:
    quantity, equals, figure = (part.strip() for part in text.partition("="))
    if not equals or quantity not in _FORMS:
        raise UsageError(
            f"--what-if does not know '{text}': write {', '.join(_FORMS)}, each with its new "
            "figure, as in bandwidth=2x,latency=0"
        )
    try:
        change = _figure(quantity, figure)
    except UsageError:
        raise UsageError(
            f"--what-if {quantity}={figure} is no {quantity}: write {_FORMS[quantity]}"
        ) from None
    if quantity != "latency" and 0.0 in (change.factor, change.value):
        raise UsageError(f"--what-if {quantity}={figure}: it must be above 0")
    return change


def _figure(quantity: str, text: str) -> Change:
    factor = _FACTOR.fullmatch(text)
    if factor and np.isfinite(float(factor[1])):
        return Change(quantity, factor=float(factor[1]))
    if text == "inf" and quantity != "latency":
        return Change(quantity, value=np.inf)
    if text == "0":
        return Change(quantity, value=0.0)
    if quantity == "latency":
        return Change(quantity, value=parse_seconds(text))
    if quantity == "compute":
        raise UsageError("a speed has no unit")
    return Change(quantity, value=parse_rate(text))
