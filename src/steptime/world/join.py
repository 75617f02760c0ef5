"""Joining the other ranks through torch.distributed, and leaving them in good order."""

import gc
import os
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

from steptime.errors import SteptimeError, UsageError
from steptime.world.deadline import within
from steptime.world.environment import LostContactError, World
from steptime.world.freed_memory import keep_freed_memory
from steptime.world.rendezvous import Endpoint, rendezvous

_POLL_S = 0.05
_GRACE_S = 1.0
"""How long a call of the store may take beyond the timeout by which it ends itself."""

_PEER_GONE = re.compile(
    r"Connection closed by peer|Connection reset by peer|Broken pipe|Connection was likely closed"
    r"|remote process exited"
)
_PEER_SILENT = re.compile(r"Timed out waiting|wait timeout after|operation timeout")
_REFUSED = "Connection refused"
_NO_MEMORY = re.compile(r"DefaultCPUAllocator|out of memory")


@contextmanager
def joined(world: World, backend: str, *, threads: int, timeout_s: float) -> Iterator[None]:
    """Be a rank of ``world`` inside the ``with`` block, with ``threads`` threads for its operators.

    Do the work in a function called from the block, so that models and their wrappers are gone when
    it ends: a collective that they still hold can abort the process at its exit.

    After an exception nothing is torn down: teardown would wait for collectives whose other ranks
    may never come. Report the exception, then end the process with os._exit.

    Raises what ``join`` raises; LostContactError in place of torch's RuntimeError for a rank that
    died or stayed silent for ``timeout_s`` seconds; SteptimeError in place of that for memory that
    ran out.
    """
    torch.set_num_threads(threads)
    keep_freed_memory()
    join(world, backend, timeout_s)
    try:
        yield
        leave()
    except RuntimeError as error:
        if _PEER_GONE.search(str(error)):
            raise LostContactError(f"rank {world.rank} lost contact: another rank died") from error
        if _PEER_SILENT.search(str(error)):
            raise LostContactError(
                f"rank {world.rank} waited {timeout_s:g} s for another rank, which hangs or runs "
                "another collective"
            ) from error
        if _NO_MEMORY.search(str(error)):
            raise SteptimeError(
                f"rank {world.rank} has not enough memory: choose a smaller model or a smaller "
                "--batch, or more --accumulate"
            ) from error
        raise


def join(world: World, backend: str, timeout_s: float) -> None:
    """Make this process a rank of torch.distributed, once; ``timeout_s`` is for each collective.

    Raises UsageError when the port is taken, the launcher gives the ranks no way to connect or the
    backend cannot run here; LostContactError when other ranks do not come in time, or die after
    they came; SteptimeError when they come but cannot connect to each other.
    """
    device = _claim_gpu(world) if backend == "nccl" else None
    if world.one_host:
        # The name of a host need not resolve, and by default gloo takes the interface behind it.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", _loopback())
    with rendezvous(world, timeout_s) as point:
        store = _open_store(point, world, timeout_s)
        try:
            within(timeout_s + _GRACE_S, _call_roll, store, world, timeout_s)
        except (RuntimeError, TimeoutError) as error:
            raise LostContactError(
                f"rank {world.rank} lost contact with rank 0 while the ranks joined: it died, or "
                "its host cannot be reached"
            ) from error
        try:
            dist.init_process_group(
                backend,
                store=PrefixStore("default_pg", store),
                rank=world.rank,
                world_size=world.size,
                timeout=timedelta(seconds=timeout_s),
                device_id=device,
            )
        except (RuntimeError, ValueError) as error:
            # All ranks had answered the roll call, so on one host a port that is closed now was
            # that of a rank which has died since.
            if _PEER_GONE.search(str(error)) or (world.one_host and _REFUSED in str(error)):
                raise LostContactError(
                    f"rank {world.rank} lost contact: another rank died"
                ) from error
            raise SteptimeError(
                f"rank {world.rank} could not connect to the other ranks by {backend} "
                f"({str(error).splitlines()[0]}): name the network interface that they share in "
                f"{backend.upper()}_SOCKET_IFNAME"
            ) from error


def leave() -> None:
    """Leave torch.distributed once every rank has arrived here; free the models before.

    A collective that is freed while the interpreter finalises aborts the process. So the remaining
    ones are collected first, and no rank leaves before all have finished their last one.
    """
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()


def _claim_gpu(world: World) -> torch.device:
    gpus = torch.cuda.device_count() if dist.is_nccl_available() else 0
    if world.local_rank >= gpus:
        raise UsageError(
            f"the backend nccl needs a GPU for every rank, and local rank {world.local_rank} of "
            f"{socket.gethostname()} finds {gpus}: start fewer ranks or use gloo"
        )
    device = torch.device("cuda", world.local_rank)
    torch.cuda.set_device(device)
    return device


def _loopback() -> str:
    return next(name for _, name in socket.if_nameindex() if name.startswith("lo"))


def _open_store(point: Endpoint, world: World, timeout_s: float) -> Store:
    """Connect to the store at ``point``, which rank 0 serves unless torchrun's agent does."""
    try:
        # torch waits for ever on a port that accepts and then says nothing.
        store = within(
            timeout_s,
            TCPStore,
            point.address,
            point.port,
            world.size,
            is_master=point.listener is not None,
            timeout=timedelta(seconds=timeout_s),
            wait_for_workers=False,
            master_listen_fd=point.listener.detach() if point.listener else None,
        )
        # In the store of an agent the addresses of ranks that died before a restart still stand.
        return PrefixStore(f"restart_{world.restarts}", store) if world.agent_listens else store
    except (RuntimeError, TimeoutError) as error:
        raise LostContactError(
            f"rank {world.rank} got no answer from rank 0 at {point.address}:{point.port} within "
            f"{timeout_s:g} s: it hangs, or MASTER_PORT is the port of another program"
        ) from error


def _call_roll(store: Store, world: World, timeout_s: float) -> None:
    """Wait until every rank has reached the store; the error names those that have not."""
    store.set(f"steptime/joined/{world.rank}", "")
    store.add("steptime/joined", 1)
    deadline = time.monotonic() + timeout_s
    while store.add("steptime/joined", 0) < world.size:
        if time.monotonic() > deadline:
            absent = [
                str(r) for r in range(world.size) if not store.check([f"steptime/joined/{r}"])
            ]
            raise LostContactError(
                f"of {world.size} ranks, rank {', '.join(absent)} did not join within "
                f"{timeout_s:g} s: check that every host runs its ranks"
            )
        time.sleep(_POLL_S)
