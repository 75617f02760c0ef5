"""Which library makes the calls of a rank."""

from steptime.replay.calls import Caller


def caller_of(backend: str) -> Caller:
    """The caller of this rank, which must have joined the others by ``backend``."""
    if backend == "mpi":
        from mpi4py import MPI

        from steptime.replay.mpi_calls import MpiCaller

        return MpiCaller(MPI.COMM_WORLD)
    if backend == "nccl":
        import torch

        from steptime.replay.nccl_calls import NcclCaller

        return NcclCaller(torch.device("cuda", torch.cuda.current_device()))
    from steptime.replay.torch_calls import TorchCaller

    return TorchCaller()
