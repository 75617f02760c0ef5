"""Where a measurement runs: the checks before it, its transport, and the host of each rank."""

import socket
import zlib

import numpy as np

from steptime import host_memory as room
from steptime.errors import UsageError
from steptime.measure.bench import Bench
from steptime.measure.transport import BenchTransport
from steptime.units import format_bytes

_OF_MPI = ("float32", "float64", "int8", "uint8", "int32", "int64")
_PROCESS_BYTES = {"mpi": 60 << 20}
_TORCH_PROCESS_BYTES = 300 << 20


def check_place(bench: Bench, backend: str, ranks: int, ranks_here: int) -> None:
    """Raise UsageError when the measurement cannot run on so many ranks with this backend.

    ``ranks_here``: how many of them this host must hold.
    """
    operation = bench.operation
    if operation.name == "sendrecv" and ranks < 2:
        raise UsageError("sendrecv needs at least 2 ranks: give --ranks 2 or more")
    if bench.registered and backend != "steptime":
        raise UsageError(
            f"the backend {backend} registers no buffers: leave -R out, or choose --backend "
            "steptime"
        )
    if backend == "mpi":
        from steptime.world.mpi import check_mpi

        check_mpi()
        if bench.dtype.name not in _OF_MPI:
            raise UsageError(f"MPI has no {bench.dtype.name}: choose one of {', '.join(_OF_MPI)}")
    if backend == "nccl":
        check_gpus(ranks_here)
    _check_memory(bench, backend, ranks, ranks_here)


def make_transport(backend: str, *, registered: bool = False) -> BenchTransport:
    """The transport of this rank, which must have joined by ``backend``.

    ``registered``: with buffers in the arena of the backend steptime.
    """
    if backend == "mpi":
        from mpi4py import MPI

        from steptime.measure.mpi_transport import MpiTransport

        return MpiTransport(MPI.COMM_WORLD)
    import torch

    from steptime.measure.torch_transport import TorchTransport

    if backend == "nccl":
        return TorchTransport(torch.device("cuda", torch.cuda.current_device()))
    return TorchTransport(torch.device("cpu"), registered=registered)


def hosts_of(transport: BenchTransport) -> tuple[int, ...]:
    """The host of each rank, numbered in the order of the ranks."""
    here = np.array(float(zlib.crc32(socket.gethostname().encode())))
    names = transport.gather(here).tolist()
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return tuple(numbers[name] for name in names)


def check_gpus(ranks_here: int) -> None:
    """Raise UsageError where this host has no GPU of its own for each of its ranks, or no NCCL."""
    import torch

    from steptime.world.compat import has_nccl

    gpus = torch.cuda.device_count() if has_nccl() else 0
    if gpus < ranks_here:
        raise UsageError(
            f"the backend nccl needs a GPU for every rank, and {ranks_here} ranks are to run on "
            f"this host, where torch can use {gpus} with NCCL: choose fewer ranks, or --backend "
            "gloo, steptime or mpi"
        )


def _check_memory(bench: Bench, backend: str, ranks: int, ranks_here: int) -> None:
    if backend == "nccl":
        return
    process = _PROCESS_BYTES.get(backend, _TORCH_PROCESS_BYTES)
    needed = ranks_here * (process + bench.bytes_needed(ranks))
    available = room.available_bytes()
    if needed > available:
        raise UsageError(
            f"{ranks_here} ranks on this host need {format_bytes(needed)} of memory and "
            f"{format_bytes(available)} are free: choose a smaller --maxbytes or fewer ranks"
        )
