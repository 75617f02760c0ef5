"""Collectives among ranks that share a host, through shared memory.

``meet`` finds by a probe which ranks share hosts; a ``HostGroup`` does the collectives of those
that share this one; ``empty`` makes tensors that its collectives read and write where they are.
"""

from steptime.backend.host.arena import empty
from steptime.backend.host.call import Call, Kind
from steptime.backend.host.group import HostGroup
from steptime.backend.host.meeting import Meeting, meet

__all__ = ["Call", "HostGroup", "Kind", "Meeting", "empty", "meet"]
