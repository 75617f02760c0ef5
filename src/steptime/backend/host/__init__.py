"""Collectives among ranks that share a host, through shared memory.

``find_hosts`` finds by a probe which ranks share hosts; a ``HostGroup`` does the collectives of
those that share this one; ``empty`` makes tensors that its collectives read and write in place.
"""

from steptime.backend.host.arena import empty
from steptime.backend.host.call import Call, Kind
from steptime.backend.host.discovery import HostMap, find_hosts
from steptime.backend.host.group import HostGroup

__all__ = ["Call", "HostGroup", "HostMap", "Kind", "empty", "find_hosts"]
