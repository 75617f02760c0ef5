"""Processes: a command on the hosts of an emulated cluster, started, watched, ended together."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from steptime.emulate.namespaces import enter
from steptime.emulate.plan import Host, Plan
from steptime.errors import shell_status

_GRACE_S = 5.0
"""How long processes have to end by themselves after the first that failed, and after SIGTERM."""

_PORT = 29500


@dataclass(frozen=True)
class Wanted:
    """One process: on which host, and what its environment says beside the common."""

    host: Host
    environ: Mapping[str, str]


def wanted(plan: Plan) -> Iterator[Wanted]:
    """The processes of a command: torchrun's contract tells each rank, or each agent, its place."""
    in_order = sorted(plan.hosts, key=lambda host: host.ranks)  # rank 0 may be on any
    first, port = in_order[0], str(_PORT)
    if plan.start == "once":
        yield Wanted(plan.hosts[0], {})
    for number, host in enumerate(in_order if plan.start == "hosts" else ()):
        yield Wanted(
            host,
            {
                "PET_NNODES": str(len(plan.hosts)),
                "PET_NODE_RANK": str(number),
                "PET_NPROC_PER_NODE": str(len(host.ranks)),
                "PET_MASTER_ADDR": first.name,
                "PET_MASTER_PORT": port,
                "PET_RDZV_ENDPOINT": f"{first.name}:{port}",
            },
        )
    for number, host in enumerate(in_order if plan.start == "ranks" else ()):
        for local, rank in enumerate(host.ranks):
            yield Wanted(
                host,
                {
                    "RANK": str(rank),
                    "WORLD_SIZE": str(plan.world_size),
                    "LOCAL_RANK": str(local),
                    "LOCAL_WORLD_SIZE": str(len(host.ranks)),
                    "GROUP_RANK": str(number),
                    "MASTER_ADDR": first.name,
                    "MASTER_PORT": port,
                },
            )


def start(one: Wanted, plan: Plan, holder: int, common: Mapping[str, str]) -> "Running":
    """Start a process on its host; raises OSError where there is no such program."""

    def prepare() -> None:
        enter(holder)
        if one.host.cores:
            os.sched_setaffinity(0, one.host.cores)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

    process = subprocess.Popen(
        plan.command,
        env={**common, **one.environ},
        stdin=None if plan.start == "once" else subprocess.DEVNULL,
        preexec_fn=prepare,
    )
    return Running(process)


class Running:
    """A started process, and what is readable once it has ended."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.end = os.pidfd_open(process.pid)

    def status(self) -> int:
        """The exit status of an ended process, as shells give it."""
        code = self.process.wait()
        os.close(self.end)
        return shell_status(code)


def watch(
    running: list[Running],
    control: socket.socket,
    due: Callable[[float], float | None],
) -> int:
    """Wait until all have ended; the status of the first that failed, else 0.

    The others end with the first that fails, after a grace. A byte on ``control`` is the number of
    a signal for all of them; its end ends this process. ``due`` is given the seconds since the
    start, does what is due by then, and says when it wants to be called again.
    """
    began, status, patience = time.monotonic(), 0, [signal.SIGTERM]
    deadline: float | None = None
    ends = {one.end: one for one in running}
    poll = select.poll()
    for file in (*ends, control.fileno()):
        poll.register(file, select.POLLIN)
    while ends:
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            _signal(ends.values(), patience.pop(0) if patience else signal.SIGKILL)
            deadline = now + _GRACE_S
        nexts = [due(now - began), deadline and deadline - began]
        waits = [one - (now - began) for one in nexts if one is not None]
        ready = poll.poll(max(0.0, 1e3 * min(waits)) if waits else None)
        for file, _ in ready:
            if file == control.fileno():
                told = control.recv(1)
                if not told:
                    # Whoever began this was killed, maybe before the system knew that this is to
                    # end with it; all that runs here ends with this process.
                    sys.exit(1)
                for number in told:  # they take the time that they need, as for a checkpoint
                    _signal(ends.values(), signal.Signals(number))
                continue
            poll.unregister(file)
            code = ends.pop(file).status()
            status = status or code
        if status and deadline is None:
            deadline = time.monotonic() + _GRACE_S
    return status


def _signal(running: Iterable[Running], number: signal.Signals) -> None:
    for one in running:
        with suppress(ProcessLookupError):
            one.process.send_signal(number)
