"""Rendezvous: how the ranks find the port that rank 0 listens on.

A port that rank 0 first picks and then opens can be lost in between, so rank 0 opens its socket
first and hands the open socket to the store of torch.distributed.
"""

import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from steptime.errors import UsageError
from steptime.world.environment import LostContactError, World

_LOOPBACK = "127.0.0.1"
_POLL_S = 0.05
_FIRST_PORT, _PORTS = 10000, 20000
"""Ports that no kernel gives away by itself."""

_RANK_OF_MPI = (b"PMI_RANK=", b"OMPI_COMM_WORLD_RANK=", b"FLUX_TASK_RANK=")


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where this rank reaches the ranks' common store."""

    address: str
    port: int
    listener: socket.socket | None = None
    """The socket open there: rank 0's, except under torchrun, whose agent owns it."""


@contextmanager
def rendezvous(world: World, timeout_s: float) -> Iterator[Endpoint]:
    """The endpoint of the store of the ranks of ``world``, reachable inside the ``with`` block.

    Keep the block open until all ranks have joined.

    Raises UsageError when the port is taken or the launcher gives the ranks no way to connect, and
    LostContactError when rank 0 cannot be reached within ``timeout_s`` seconds.
    """
    with ExitStack() as stack:
        if world.address is not None:
            point = _given(world)
        elif world.one_host:
            point = stack.enter_context(_shared_through_file(world, timeout_s))
        else:
            point = _shared_through_mpi(world)
        if point.listener:
            stack.enter_context(point.listener)  # closes it, unless a store has taken it over
        else:
            _await_listener(point, world.rank, timeout_s)
        yield point


def contract(world: World) -> dict[str, str]:
    """What torchrun would set for this rank, for a script of the user's that another launcher runs.

    The ranks of an MPI on one host agree on a port without a word: by the process that started all.
    Raises UsageError where they are on several hosts and nobody has said where rank 0 listens.
    """
    if world.launcher in ("torchrun", "steptime"):
        return {}
    if world.address is None and not world.one_host:
        raise UsageError(
            f"{world.launcher} started ranks on several hosts and named no address of rank 0: set "
            "MASTER_ADDR and MASTER_PORT (mpirun -x NAME=VALUE, mpiexec -genv NAME VALUE)"
        )
    port = (
        _FIRST_PORT + crc32(_mpi_daemon().encode()) % _PORTS if world.port is None else world.port
    )
    places = {
        "RANK": world.rank,
        "WORLD_SIZE": world.size,
        "LOCAL_RANK": world.local_rank,
        "LOCAL_WORLD_SIZE": world.local_size,
        "MASTER_ADDR": world.address or _LOOPBACK,
        "MASTER_PORT": port,
    }
    return {name: str(value) for name, value in places.items()}


def _given(world: World) -> Endpoint:
    if world.address is None or world.port is None:
        raise ValueError("a world with an address has a port too")
    if world.rank != 0 or world.agent_listens:
        # The name of a host need not resolve on the host itself.
        address = _LOOPBACK if world.one_host else world.address
        return Endpoint(address=address, port=world.port)
    if world.listener is not None:
        listener = socket.socket(fileno=world.listener)
    else:
        listener = _listen(_LOOPBACK if world.one_host else "", world.port)
    return _own(listener)


def _own(listener: socket.socket) -> Endpoint:
    return Endpoint(address=_LOOPBACK, port=listener.getsockname()[1], listener=listener)


def _listen(host: str, port: int) -> socket.socket:
    both = not host and socket.has_dualstack_ipv6()
    try:
        return socket.create_server(
            (host, port),
            family=socket.AF_INET6 if both else socket.AF_INET,
            backlog=socket.SOMAXCONN,
            dualstack_ipv6=both,
        )
    except OSError as error:
        raise UsageError(
            f"rank 0 cannot listen on port {port} of {socket.gethostname()} "
            f"({os.strerror(error.errno or 0)}): set MASTER_PORT to a free port"
        ) from None


def _await_listener(point: Endpoint, rank: int, timeout_s: float) -> None:
    """Return once something listens at ``point``."""
    deadline = time.monotonic() + timeout_s
    while True:
        patience = max(deadline - time.monotonic(), _POLL_S)
        try:
            socket.create_connection((point.address, point.port), timeout=patience).close()
        except OSError as error:
            if time.monotonic() > deadline:
                raise LostContactError(
                    f"rank {rank} did not reach rank 0 at {point.address}:{point.port} within "
                    f"{timeout_s:g} s ({error.strerror or error}): check that rank 0 runs, "
                    "MASTER_ADDR and MASTER_PORT"
                ) from None
            time.sleep(_POLL_S)
        else:
            return


@contextmanager
def _shared_through_file(world: World, timeout_s: float) -> Iterator[Endpoint]:
    """The port through a file that rank 0 writes: all ranks of an MPI job are on this host."""
    path = Path(tempfile.gettempdir()) / f"steptime-{os.getuid()}-{_mpi_daemon()}"
    if world.rank == 0:
        point = _own(_listen(_LOOPBACK, 0))
        _publish(path, str(point.port))
        try:
            yield point
        finally:
            path.unlink(missing_ok=True)
    else:
        yield Endpoint(address=_LOOPBACK, port=_read_port(path, world.rank, timeout_s))


def _publish(path: Path, text: str) -> None:
    """Write a file atomically; ``path`` may be in a folder that all users share."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(temporary).replace(path)


def _read_port(path: Path, rank: int, timeout_s: float) -> int:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            if path.stat().st_uid == os.getuid():
                return int(path.read_text())
        time.sleep(_POLL_S)
    raise LostContactError(
        f"rank {rank} did not find the port of rank 0 in {path} within {timeout_s:g} s: "
        "check that rank 0 runs, or give mpirun MASTER_ADDR and MASTER_PORT"
    )


def _mpi_daemon() -> str:
    """An id of the process that started all ranks of this host: its pid and start time.

    It is the nearest ancestor without a rank of its own: wrappers such as ``uv run`` have one.
    """
    process = os.getppid()
    with suppress(OSError):
        while _is_rank(process):
            process = int(_stat(process)[1])
        return f"{process}-{_stat(process)[19]}"
    return str(process)


def _is_rank(process: int) -> bool:
    variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    return any(variable.startswith(_RANK_OF_MPI) for variable in variables)


def _stat(process: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent, …, start time (proc(5))."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _shared_through_mpi(world: World) -> Endpoint:
    """Rank 0's address through MPI itself: the ranks of the job are on several hosts."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError):
        raise UsageError(
            "mpirun started ranks on several hosts and named no address of rank 0: install "
            "mpi4py, or set MASTER_ADDR and MASTER_PORT (mpirun -x NAME=VALUE, mpiexec -genv NAME "
            "VALUE)"
        ) from None
    ranks = MPI.COMM_WORLD
    if ranks.size != world.size:
        raise UsageError(
            f"mpi4py sees {ranks.size} ranks where mpirun started {world.size}: it was built for "
            "another MPI; set MASTER_ADDR and MASTER_PORT"
        )
    own = _own(_listen("", 0)) if world.rank == 0 else None
    address, port = ranks.bcast(own and (socket.gethostname(), own.port))
    return own or Endpoint(address=address, port=port)
