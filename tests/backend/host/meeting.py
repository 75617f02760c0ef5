"""Who is on a rank's host, as it finds out: ``meeting.py STORE RANK RANKS`` prints it."""

import json
import sys
from typing import Any

from torch.distributed import FileStore

from steptime.backend.host import Call, HostGroup, Kind, find_hosts


def meet(path: str, rank: int, ranks: int) -> list[Any]:
    """The hosts, who is on this rank's, and its place among those; ``path``: of the store."""
    store = FileStore(path, ranks)
    hosts = find_hosts(store, rank, ranks, 300.0)
    group = HostGroup(store, hosts, 600.0)
    group.barrier(Call.of(Kind.BARRIER))
    group.close()
    return [hosts.partition, hosts.members, group.rank]


if __name__ == "__main__":
    print(json.dumps(meet(sys.argv[1], *map(int, sys.argv[2:]))))
