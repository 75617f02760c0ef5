"""Messages between ranks of different hosts, over TCP connections of the backend's own.

``meeting`` connects the ranks over the ``rails`` that they share, a ``Pipe`` is one connection, a
``Peer`` all those to one rank, and a ``Mesh`` moves what is sent and asked for over all of them.
"""

from steptime.backend.sockets.meeting import meet
from steptime.backend.sockets.mesh import Mesh
from steptime.backend.sockets.peer import LostPeerError
from steptime.backend.sockets.requests import Receipt, Sending

__all__ = ["LostPeerError", "Mesh", "Receipt", "Sending", "meet"]
