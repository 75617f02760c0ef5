"""Tuning: what each of NCCL's algorithms takes, by the form of NCCL's own model.

A call takes the latency of its steps and its bytes over a bandwidth, for each algorithm and
protocol (NVIDIA/nccl, src/graph/tuning.cc); it runs as what takes the least.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from steptime.arrays import Floats
from steptime.simulate.nccl.library import LL, LL128, PROTOCOLS, SIMPLE, Library, Steps

PASSES: Mapping[str, float] = MappingProxyType(
    {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0}
)
"""How often a ring carries the whole vector past each rank, times (n - 1) / n."""

ROOTED = ("broadcast", "reduce")
"""What a ring carries from rank to rank, all of the vector past each."""

SPREAD = ("all_to_all", "gather", "scatter")
"""What messages carry, from or to every rank its own part."""

KINDS = (*PASSES, *ROOTED, *SPREAD)


@dataclass(frozen=True, eq=False, kw_only=True)
class Groups:
    """Calls by their groups, each of shape (calls,): ``ranks`` on ``hosts``, ``nbytes`` a vector.

    All groups alike call at once, each device being in one.
    """

    nbytes: Floats
    ranks: Floats
    hosts: Floats

    @property
    def near(self) -> Floats:
        """Ranks of the group on each of its hosts."""
        return self.ranks / self.hosts


def options(library: Library, kind: str, groups: Groups) -> dict[str, Floats]:
    """What a call of each row takes by each algorithm that serves it, in seconds, shape (calls,).

    By names such as ``ring LL128``; inf where one does not serve a group.
    """
    if kind in SPREAD:
        return {"messages": _messages(library, groups)}
    found = _ring(library, kind, groups)
    if kind == "all_reduce":
        if library.trees:
            found |= _tree(library, groups)
        found["NVLS"] = _nvls(library, groups)
    if kind in ("all_gather", "reduce_scatter"):
        found["PAT"] = _pat(library, groups)
    return {name: library.call_s + seconds for name, seconds in found.items()}


def ring_rate(library: Library, groups: Groups) -> Floats:
    """Bytes/s that pass each rank of a ring: a host's members feed all NICs that are theirs."""
    wire = library.wire * groups.near
    return np.where(groups.hosts > 1, np.minimum(wire, library.ring_rate), library.ring_rate)


def _ring(library: Library, kind: str, groups: Groups) -> dict[str, Floats]:
    passes = PASSES.get(kind, 1.0)
    steps = passes * (groups.ranks - 1)
    share = 1.0 if kind in ROOTED else (groups.ranks - 1) / groups.ranks
    rate = ring_rate(library, groups) * steps / (steps + library.number("last_receive"))
    between = passes * (groups.hosts - 1)
    shares = library.by_protocol("shares")
    found = {}
    for protocol, name in enumerate(PROTOCOLS):
        latency = _latency(library.ring, protocol, steps - between, between)
        if protocol == SIMPLE and kind == "all_reduce":
            large = groups.nbytes >= 64 * library.channels * groups.ranks
            plateau = library.number("plateau")
            latency = latency * np.where(large & (groups.hosts > 1), plateau, 1.0)
        reached = rate * shares[protocol]
        if protocol == LL:
            reached = np.minimum(reached, _most_of_ll(library, groups))
        seconds = latency + passes * share * groups.nbytes / reached
        found[f"ring {name}"] = _where_allowed(library, protocol, groups, seconds)
    return found


def _tree(library: Library, groups: Groups) -> dict[str, Floats]:
    """Two trees, each of half the vector: a host is inside one and a leaf of the other."""
    near, far = 2 * (groups.near - 1), 2 * np.log2(groups.hosts)
    wire = library.wire * groups.near
    rate = np.full(groups.ranks.shape, library.ring_rate * library.number("tree") / 2)
    rate = np.where(groups.hosts > 1, np.minimum(rate, _tree_wire(wire, groups)), rate)
    shares = library.by_protocol("tree_shares")
    found = {}
    for protocol, name in enumerate(PROTOCOLS):
        reached = rate * shares[protocol]
        if protocol == LL:
            reached = np.minimum(reached, _most_of_ll(library, groups) / 2)
        if protocol == LL128:
            reached = np.where(groups.hosts > 1, reached, rate * 7 / 9)
        seconds = _latency(library.tree, protocol, near, far) + groups.nbytes / reached
        found[f"tree {name}"] = _where_allowed(library, protocol, groups, seconds)
    return found


def _nvls(library: Library, groups: Groups) -> Floats:
    """Sums in the NVSwitch; with several hosts a tree between them."""
    if not library.nvls_rate:
        return np.full(groups.ranks.shape, np.inf)
    wire = _tree_wire(library.wire * groups.near, groups)
    rate = np.where(groups.hosts > 1, np.minimum(wire, library.nvls_rate), library.nvls_rate)
    latency = library.nvls_s + 2 * np.log2(groups.hosts) * library.nvls_far_s
    serves = groups.near >= library.nvls_ranks
    return np.where(serves, latency + groups.nbytes / rate, np.inf)


def _pat(library: Library, groups: Groups) -> Floats:
    """Trees of a gather or a scattered sum, for one rank of each host."""
    base, each, doubling = library.by_protocol("pat_s")
    latency = base + each * groups.ranks + doubling * np.log2(groups.hosts)
    moved = groups.nbytes * (groups.ranks - 1) / groups.ranks
    seconds = latency + moved / (library.wire * library.number("pat"))
    return np.where((groups.near == 1) & (groups.hosts > 1), seconds, np.inf)


def _messages(library: Library, groups: Groups) -> Floats:
    """Messages of all to all at once, a rank's own share copied beside them."""
    within = groups.nbytes * groups.near / groups.ranks / library.message_rate
    away = groups.nbytes * (groups.ranks - groups.near) / groups.ranks
    across = np.where(groups.hosts > 1, away / library.wire, 0.0)
    latency = library.ring.base[SIMPLE] / library.number("settle") + np.where(
        groups.hosts > 1, library.ring.far[SIMPLE], library.ring.near[SIMPLE]
    )
    return np.asarray(library.call_s + latency + np.maximum(within, across))


def message(library: Library, nbytes: Floats, across: Floats) -> Floats:
    """What a message takes, in seconds, to another host where ``across`` is 1: (messages,)."""
    far = across > 0
    rate = np.where(far, library.wire, library.message_rate)
    step = np.where(far, library.ring.far[SIMPLE], library.ring.near[SIMPLE])
    return np.asarray(library.call_s + step + nbytes / rate)


def _latency(steps: Steps, protocol: int, near: Floats, far: Floats) -> Floats:
    return np.asarray(
        steps.base[protocol] + near * steps.near[protocol] + far * steps.far[protocol]
    )


def _tree_wire(wire: Floats, groups: Groups) -> Floats:
    """The vector's bytes/s over a host's NICs: once each way between two, twice among more."""
    return np.asarray(wire / np.where(groups.hosts > 2, 2.0, 1.0))


def _most_of_ll(library: Library, groups: Groups) -> Floats:
    two, more = library.ll_far
    most = np.where(groups.hosts > 2, more, two)
    return np.where(groups.hosts > 1, most, library.ll_near)


def _where_allowed(library: Library, protocol: int, groups: Groups, seconds: Floats) -> Floats:
    near, far = library.allowed[:, protocol]
    return np.where(np.where(groups.hosts > 1, far, near) > 0, seconds, np.inf)
