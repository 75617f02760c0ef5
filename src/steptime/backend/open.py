"""Opening a group: find out which ranks share a host, and choose the engine that serves it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steptime.backend.engine import Engine
from steptime.backend.host import HostGroup, HostMap, find_hosts
from steptime.backend.network import NetworkGroup
from steptime.backend.process_group import SteptimeGroup
from steptime.backend.reasons import Reasons
from steptime.backend.scheduled import ScheduledGroup
from steptime.backend.selection import Options, select
from steptime.backend.transport import HostTransport, ScheduleTransport
from steptime.backend.two_level import TwoLevelGroup
from steptime.collectives.selection import Selection
from steptime.errors import UsageError
from steptime.world import compat
from steptime.world.deadline import within
from steptime.world.environment import LostContactError

_GRACE_S = 5.0
"""How much longer the ranks of a host wait for their leader than it waits for other hosts."""

_LATE_S = 1.0
"""How long making a group may take beyond its timeout, which each step of it has for itself."""


def open_group(options: compat.GroupOptions, own_options: object) -> SteptimeGroup:
    """Make the process group that torch.distributed asks for; called by all its ranks at once.

    ``own_options`` is what the caller gave as ``pg_options``: Options, or None.

    Raises UsageError where the backend or a chosen algorithm cannot work, SteptimeError when the
    ranks cannot connect to each other, and LostContactError when a rank does not come in time.
    """
    if own_options is not None and not isinstance(own_options, Options):
        raise UsageError(
            f"the backend steptime takes steptime.backend.Options as pg_options, not "
            f"{type(own_options).__name__}"
        )
    rank, ranks = options.group_rank, options.group_size
    names = options.global_ranks_in_group or range(ranks)
    store = compat.PrefixStore("steptime", options.store)
    selected = select(own_options or Options(), os.environ, ranks)
    place = _Place(store, rank, ranks, options.timeout.total_seconds(), names, Reasons(store))
    limit_s = min(place.timeout_s, compat.timeout_of(store).total_seconds())
    try:
        engine = within(limit_s + _LATE_S, _open_engine, place, selected)
    except TimeoutError:
        raise LostContactError(
            f"rank {names[rank]} could not join a group of {ranks} ranks within "
            f"{limit_s:g} s: another rank hangs, or the host of the store cannot be reached"
        ) from None
    return SteptimeGroup(
        engine,
        names,
        options.store,
        nccl=lambda: compat.nccl(
            compat.PrefixStore("cuda", options.store), rank, ranks, options.timeout
        ),
    )


@dataclass(frozen=True)
class _Place:
    """A rank's place in its group, the store by which the group connects, and why it failed."""

    store: compat.Store
    rank: int
    ranks: int
    timeout_s: float
    names: Sequence[int]
    reasons: Reasons

    def network(self, key: str, members: Sequence[int]) -> NetworkGroup:
        """The NetworkGroup of ``members``; each of them must make this call."""
        names = [self.names[member] for member in members]
        store = compat.PrefixStore(key, self.store)
        return NetworkGroup(
            store, members.index(self.rank), len(members), self.timeout_s, names, self.reasons
        )


def _open_engine(place: _Place, selected: Mapping[str, Selection]) -> Engine:
    """Shared memory on one host, the network for one rank a host, two levels for all else."""
    hosts = find_hosts(place.store, place.rank, place.ranks, place.timeout_s)
    everyone = range(place.ranks)
    builtin: Engine
    if len(hosts.partition) == 1:
        builtin = HostGroup(place.store, hosts, place.timeout_s, place.names)
    elif len(hosts.partition) == place.ranks:
        builtin = place.network("builtin", everyone)
    else:
        builtin = _two_level(place, hosts)
    if not selected:
        return builtin
    host_of = {rank: i for i, members in enumerate(hosts.partition) for rank in members}
    transport: ScheduleTransport
    if isinstance(builtin, HostGroup):
        transport = HostTransport(builtin)
    else:
        transport = place.network("schedules", everyone)
    return ScheduledGroup(builtin, transport, selected, tuple(host_of[rank] for rank in everyone))


def _two_level(place: _Place, hosts: HostMap) -> TwoLevelGroup:
    names = [place.names[member] for member in hosts.members]
    host = HostGroup(place.store, hosts, place.timeout_s + _GRACE_S, names)
    leaders = [members[0] for members in hosts.partition]
    return TwoLevelGroup(
        hosts.partition,
        host,
        place.network("among", range(place.ranks)),
        place.network("between", leaders) if place.rank in leaders else None,
    )
