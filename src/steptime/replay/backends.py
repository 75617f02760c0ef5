"""The transport and the stand-in for computing that a backend needs."""

from steptime.host_memory import available_bytes
from steptime.replay.run_options import Kind
from steptime.replay.standin import StandIn, busy, nothing, sleep, sleep_exactly
from steptime.replay.transport import ReplayTransport
from steptime.replay.workload import Proxy, check_memory


def check_backend(backend: str, here: int) -> None:
    """Raise UsageError where so many ranks on this host cannot have the backend."""
    if backend == "nccl":
        from steptime.measure.place import check_gpus

        check_gpus(here)
    if backend == "mpi":
        from steptime.world.mpi import check_mpi

        check_mpi()


def check_here(proxy: Proxy, backend: str, ranks_here: int) -> None:
    """Raise UsageError where so many ranks of this host cannot replay it by a backend."""
    check_backend(backend, ranks_here)
    check_memory(proxy, backend, ranks_here, available_bytes())


def transport_of(backend: str) -> ReplayTransport:
    """The transport of this rank, which must have joined by ``backend``."""
    if backend == "mpi":
        from mpi4py import MPI

        from steptime.replay.mpi_transport import MpiReplayTransport

        return MpiReplayTransport(MPI.COMM_WORLD)
    if backend == "nccl":
        import torch

        from steptime.replay.nccl_transport import NcclReplayTransport

        return NcclReplayTransport(torch.device("cuda", torch.cuda.current_device()))
    from steptime.replay.torch_transport import TorchReplayTransport

    return TorchReplayTransport()


def stand_in(kind: Kind, backend: str = "") -> StandIn:
    """The stand-in for computing; ``busy`` is calibrated here, which takes some milliseconds.

    With the ``backend`` nccl it keeps this rank's GPU busy.
    """
    match kind:
        case "sleep":
            sleep_exactly()
            return sleep
        case "busy" if backend == "nccl":
            import torch

            from steptime.replay.gpu_standin import busy_gpu

            return busy_gpu(torch.device("cuda", torch.cuda.current_device()))
        case "busy":
            return busy()
        case "nothing":
            return nothing
