"""Meeting: the ranks of a group find each other in a store and connect."""

import os
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress

from steptime.backend.host.discovery import publish, receive
from steptime.backend.sockets.mesh import Mesh
from steptime.backend.sockets.peer import Peer
from steptime.backend.sockets.pipe import Pipe
from steptime.backend.sockets.rails import VARIABLES, addresses
from steptime.errors import SteptimeError
from steptime.world import compat
from steptime.world.environment import LostContactError
from steptime.world.interfaces import family_of

_KEY = "sockets"
_TOKEN_BYTES = 16
_RANK_BYTES = 4
_HELLO_BYTES = _TOKEN_BYTES + _RANK_BYTES
_HELLO_S = 5.0
"""How long whoever connects may take to say who it is."""

_LEAST_S = 0.01

_UNSENT_BYTES = 128 << 10
"""What the kernel takes of a connection beyond what is on its way. Were it more, a rank would go on
to its next message while the one before still waits for the link, and the two would share it."""


def meet(store: compat.Store, rank: int, ranks: int, names: Sequence[int], limit_s: float) -> Mesh:
    """Connect this rank with all others that meet in ``store``; all of them must make this call.

    ``names`` are what errors call the ranks. Raises UsageError for interfaces that are not there,
    LostContactError when a rank does not come in ``limit_s``, SteptimeError when one cannot be
    reached, or has another number of rails.
    """
    until = time.monotonic() + limit_s
    mine = addresses(os.environ)
    try:
        found = _connections(store, rank, names, mine, until)
    except OSError as error:
        raise SteptimeError(
            f"rank {names[rank]} cannot open a connection to each of {ranks} ranks "
            f"({error.strerror or error}): raise the limit on open files (ulimit -n)"
        ) from error
    return Mesh({other: Peer(other, [Pipe(s) for s in each]) for other, each in found.items()})


def _connections(
    store: compat.Store, rank: int, names: Sequence[int], mine: Sequence[str], until: float
) -> Mapping[int, Sequence[socket.socket]]:
    """The sockets to each other rank, one a rail: to lower ranks connected, by higher accepted."""
    ranks = len(names)
    token = secrets.token_bytes(_TOKEN_BYTES)
    found: dict[int, list[socket.socket]] = {other: [] for other in range(ranks) if other != rank}
    with ExitStack() as listening, ExitStack() as connected:
        listeners = [listening.enter_context(_listener(address, ranks)) for address in mine]
        places = [listener.getsockname()[:2] for listener in listeners]
        publish(store, _KEY, rank, {"token": token.hex(), "places": places})
        for other in range(rank):
            card = receive(store, _KEY, other, max(_LEAST_S, until - time.monotonic()))
            _check_rails(names[rank], mine, names[other], card["places"])
            hello = bytes.fromhex(card["token"]) + rank.to_bytes(_RANK_BYTES, "little")
            for address, (host, port) in zip(mine, card["places"], strict=True):
                one = _connected(address, (host, port), hello, names[other], until)
                found[other].append(connected.enter_context(one))
        for listener in listeners:
            missing = set(range(rank + 1, ranks))
            while missing:
                other, one = _accepted(listener, token, [names[m] for m in missing], until)
                found[other].append(connected.enter_context(one))
                missing.discard(other)
        connected.pop_all()  # they stay open
    return found


def _check_rails(name: int, mine: Sequence[str], other: int, theirs: Sequence[object]) -> None:
    if len(mine) != len(theirs):
        raise SteptimeError(
            f"rank {name} has {len(mine)} rail{'s' * (len(mine) > 1)} and rank {other} has "
            f"{len(theirs)}: name as many network interfaces on each host in {VARIABLES[0]}"
        )


def _listener(address: str, ranks: int) -> socket.socket:
    return socket.create_server((address, 0), family=family_of(address), backlog=ranks)


def _connected(
    address: str, place: tuple[str, int], hello: bytes, name: int, until: float
) -> socket.socket:
    """A connection to the listener of another rank, from this address."""
    try:
        limit_s = max(_LEAST_S, until - time.monotonic())
        connection = socket.create_connection(place, limit_s, (address, 0))
        connection.sendall(hello)
    except OSError as error:
        raise SteptimeError(
            f"could not connect to rank {name} at {place[0]} from {address} "
            f"({error.strerror or error}): name the network interface that the hosts share in "
            f"{VARIABLES[0]}"
        ) from error
    return _tuned(connection)


def _accepted(
    listener: socket.socket, token: bytes, missing: Sequence[int], until: float
) -> tuple[int, socket.socket]:
    """The next rank that connects, and its connection; who does not know the token is let go."""
    while True:
        listener.settimeout(max(_LEAST_S, until - time.monotonic()))
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            who = f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
            raise LostContactError(
                f"{who} did not connect: died, hangs, or cannot reach this host"
            ) from None
        connection.settimeout(_HELLO_S)
        with suppress(OSError):
            hello = connection.recv(_HELLO_BYTES, socket.MSG_WAITALL)
            if hello[:_TOKEN_BYTES] == token and len(hello) == _HELLO_BYTES:
                return int.from_bytes(hello[_TOKEN_BYTES:], "little"), _tuned(connection)
        connection.close()


def _tuned(connection: socket.socket) -> socket.socket:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
    return connection
