"""Planning: what stands in for a cluster on this machine."""

import os
from collections.abc import Sequence
from pathlib import PurePath

import numpy as np

from steptime.arrays import Ints
from steptime.cluster import Cluster, Fabric
from steptime.cluster.fabrics.wiring import host_names
from steptime.emulate.faults import Fault
from steptime.emulate.plan import Host, Plan, Shape, Start
from steptime.emulate.tcp import congestion_control
from steptime.errors import UsageError
from steptime.limits import MOST_RANKS_HERE, check_within
from steptime.units import format_rate

_LEAST_RATE = 1e5  # bytes/s: a segment then takes 0.7 s
_MOST_HOSTS = 250
_BY_HOST = ("torchrun", "torch.distributed.run")
_ONCE = ("mpirun", "mpiexec", "mpiexec.hydra", "srun", "prterun", "sh", "bash", "zsh", "make")


def plan_of(
    cluster: Cluster,
    command: Sequence[str] = (),
    *,
    ranks: int | None = None,
    start: Start | None = None,
    dilation: float = 1.0,
    faults: Sequence[Fault] = (),
    congestion: str | None = None,
    rails: int = 1,
) -> Plan:
    """What stands in for a cluster, or for as much of it as ``ranks`` need (default: all of it).

    Each host gets one link each way, of the rates of its NICs together divided by ``dilation``.
    ``congestion``: the congestion control of TCP there (default: cubic, or reno). ``rails``: the
    interfaces among which a host's link is split.
    Raises UsageError where the cluster has one host, more ranks are asked for than places, more of
    either than a machine can hold, more rails than NICs, or a congestion control that this kernel
    refuses.
    """
    if cluster.network is None:
        raise UsageError(
            f"{cluster.name} is one host and has no network to emulate: name a cluster of several, "
            "as office-10gbe"
        )
    check_within("--time-dilation", dilation, 1e-3, 1e6)
    ranks = cluster.order.size if ranks is None else ranks
    check_within("--ranks", ranks, 1, MOST_RANKS_HERE)
    placed = cluster.placed(ranks)
    host_of = cluster.host_of[placed]
    used = sorted(set(host_of.tolist()))
    if len(used) == 1:
        raise UsageError(
            f"{placed.size} ranks are all on one host of {cluster.name}, and use no link: ask for "
            "more --ranks"
        )
    if len(used) > _MOST_HOSTS:
        raise UsageError(
            f"{len(used)} hosts of {cluster.name} are more than {_MOST_HOSTS}, which one machine "
            f"can stand in for: ask for fewer --ranks, or name {cluster.name}:hosts=8"
        )
    nics = cluster.network.ends // cluster.hosts
    _check_rails(rails, nics, cluster.name)
    shapes = [_shapes(cluster.network, cluster.hosts, host, dilation) for host in used]
    hosts = _hosts(used, host_of, shapes, rails)
    _check_faults(faults, hosts)
    return Plan(
        cluster=cluster.name,
        hosts=hosts,
        dilation=dilation,
        command=tuple(command),
        start=start or start_of(command),
        folder=os.getcwd(),  # noqa: PTH109  (a text, which is sent to another process)
        faults=tuple(faults),
        congestion=congestion_control(congestion),
        notes=tuple(_notes(cluster.network, nics, rails)),
    )


def _hosts(
    used: Sequence[int], host_of: Ints, shapes: Sequence[tuple[Shape, Shape]], rails: int
) -> tuple[Host, ...]:
    """The hosts of these numbers and links; ``host_of`` is the host of each rank."""
    cores = _shares(len(used), host_of.size)
    return tuple(
        Host(
            name=f"host{host}",
            address=f"10.77.0.{number + 1}",
            ranks=tuple(np.flatnonzero(host_of == host).tolist()),
            cores=cores[number],
            out=out,
            back=back,
            rail_count=rails,
        )
        for number, (host, (out, back)) in enumerate(zip(used, shapes, strict=True))
    )


def start_of(command: Sequence[str]) -> Start:
    """How often a command is to be started, by what it is: launchers start their ranks themselves.

    torchrun is started on each host, mpirun and shells on host 0, all else as each rank.
    """
    if any(PurePath(word).name in _BY_HOST for word in command[:3]):
        return "hosts"
    return "once" if not command or PurePath(command[0]).name in _ONCE else "ranks"


def _shapes(network: Fabric, hosts: int, host: int, dilation: float) -> tuple[Shape, Shape]:
    """A host's link out and its link in: the first and the last of the paths of its NICs."""
    per_host = network.ends // hosts
    nics = np.arange(host * per_host, (host + 1) * per_host, dtype=np.int32)
    others = ((nics + per_host) % network.ends).astype(np.int32)
    out = network.route(nics, others)[:, 0]
    path = network.route(others, nics)
    back = path[np.arange(per_host), (path >= 0).sum(axis=1) - 1]
    name, links = host_names(hosts)[host], network.links
    shapes = (
        Shape(
            label,
            float(links.bandwidth[found].sum()) / dilation,
            float(links.latency[found].max()) * dilation,
        )
        for label, found in ((f"{name} → switch", out), (f"switch → {name}", back))
    )
    first, second = shapes
    for shape in (first, second):
        if shape.rate < _LEAST_RATE:
            raise UsageError(
                f"{shape.name} would be of {format_rate(shape.rate)}, and less than "
                f"{format_rate(_LEAST_RATE)} cannot be held: lower --time-dilation"
            )
    return first, second


def _check_rails(rails: int, nics: int, cluster: str) -> None:
    if not 1 <= rails <= nics:
        has = f"{nics} NICs" if nics > 1 else "one NIC"
        raise UsageError(
            f"--rails {rails} for hosts of {cluster}, which have {has}: ask for 1 to {nics}, or "
            "name a file whose [nic] has more per_host"
        )


def _shares(hosts: int, ranks: int) -> list[tuple[int, ...]]:
    """The cores of each host, where there are at least as many as ranks; else none are its own."""
    cores = sorted(os.sched_getaffinity(0))
    each = len(cores) // hosts
    if len(cores) < ranks or not each:
        return [()] * hosts
    return [tuple(cores[host * each : (host + 1) * each]) for host in range(hosts)]


def _notes(network: Fabric, nics: int, rails: int) -> list[str]:
    """What of the network is left out."""
    notes = []
    if network.kind != "switch":
        notes.append(
            f"Of the {network.kind} only the hosts' own links are shaped: they meet in "
            f"{'a switch for each rail' if rails > 1 else 'one switch'} that never limits."
        )
    if nics != rails:
        links = f"{rails} links" if rails > 1 else "one link"
        notes.append(f"The {nics} NICs of a host are {links} here, as fast as all together.")
    return notes


def _check_faults(faults: Sequence[Fault], hosts: Sequence[Host]) -> None:
    """Raise UsageError where a fault is of a host that there is not."""
    names = [host.name for host in hosts]
    for fault in faults:
        if fault.host not in names:
            raise UsageError(
                f"--faults names {fault.host}, and the hosts are {names[0]} to {names[-1]}"
            )
