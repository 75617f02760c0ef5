"""Ranks that are made to fail, and a host that starts them and tells when each raised and ended.

Run as a script it is a host: it has imported torch and forks ranks as asked, an ``Order`` a line on
stdin, in JSON, and writes what happens, an event a line on stdout. A forked rank leaves ``main`` as
a script does, so its destructors and exit handlers run: what hangs there is seen.
"""

import gc
import json
import os
import selectors
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import count
from typing import Any, TextIO

_WIDTH = 256
_JOIN_S = 300.0
_HANG_S = 120.0
"""A rank that has not ended so long after the timeout hangs; generous, for a busy machine."""


@dataclass(frozen=True)
class Order:
    """Which ranks a host starts, what they do until they fail, and which it kills."""

    case: str
    backend: str
    ranks: Sequence[int]
    world: int
    store: str
    timeout_s: float
    kill: int | None = None
    """The rank that the host kills, ``kill_after_s`` after all were ready."""

    kill_after_s: float = 0.0


@dataclass(frozen=True)
class Ending:
    """How a rank ended: what it raised, and when, in seconds; None for what it never did."""

    rank: int
    raised_s: float | None
    ended_s: float | None
    code: int | None
    what: str

    def within(self, raise_s: float, end_s: float) -> bool:
        """Whether it raised and then ended of itself, both in time."""
        raised, ended = self.raised_s, self.ended_s
        return raised is not None and ended is not None and raised <= raise_s and ended <= end_s


class Host:
    """A process that forks ranks, seen by the one that started it."""

    def __init__(self, prefix: Sequence[str], environ: Mapping[str, str], training: bool) -> None:
        self._process = subprocess.Popen(
            [*prefix, sys.executable, __file__, *["training"] * training],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
        )
        assert self._process.stdin and self._process.stdout
        self._orders: TextIO = self._process.stdin
        self.told: TextIO = self._process.stdout

    def order(self, order: Order) -> None:
        print(json.dumps(asdict(order)), file=self._orders, flush=True)

    def events(self) -> Iterator[dict[str, Any]]:
        """What happens, until the last rank of the order has ended."""
        for line in self.told:
            if line == "\n":
                return
            yield json.loads(line)
        raise RuntimeError(f"the host ended with {self._process.wait()}")

    def close(self) -> None:
        self._orders.close()
        self._process.wait(60)
        self.told.close()


@contextmanager
def host(
    *prefix: str, environ: Mapping[str, str] = os.environ, training: bool = False
) -> Iterator[Host]:
    """A host, started by the command ``prefix``; ``training``: it imports what training needs."""
    started = Host(prefix, environ, training)
    try:
        yield started
    finally:
        started.close()


def endings(ranks: Iterable[int], events: Sequence[Mapping[str, Any]], at: float) -> list[Ending]:
    """How each of ``ranks`` ended, in seconds after ``at``."""
    found = []
    for rank in ranks:
        own = {event["event"]: event for event in events if event["rank"] == rank}
        raised, ended = own.get("raised"), own["ended"]
        hangs = "hangs" in own
        found.append(
            Ending(
                rank,
                raised["at"] - at if raised else None,
                None if hangs else ended["at"] - at,
                None if hangs else ended["code"],
                raised["what"] if raised else "hangs" if hangs else f"ended with {ended['code']}",
            )
        )
    return found


# The host


def main() -> None:
    import torch

    import steptime.backend  # noqa: F401 - makes the backend known

    if sys.argv[1:] == ["training"]:
        import torch._dynamo  # what optimizers import: once here, not in every rank
        import torch.distributed.fsdp

    torch.set_num_threads(1)
    gc.freeze()  # else each rank, when it ends, copies and looks through all that was imported
    for line in sys.stdin:
        order = Order(**json.loads(line))
        events, tells = os.pipe()
        pids = {}
        for rank in order.ranks:
            pids[rank] = os.fork()
            if not pids[rank]:
                os.close(events)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(2, 1)
                be_rank(order, rank, tells)
                return
        os.close(tells)
        watch(order, pids, events)
        os.close(events)
        print(flush=True)


def watch(order: Order, pids: dict[int, int], events: int) -> None:
    """Pass on what the ranks tell, kill the one that is to die, and reap all."""
    ends = {rank: os.pidfd_open(pid) for rank, pid in pids.items()}
    waiting = selectors.DefaultSelector()
    for rank, end in ends.items():
        waiting.register(end, selectors.EVENT_READ, rank)
    waiting.register(events, selectors.EVENT_READ)
    ready, kill_at, limit = set(), float("inf"), time.monotonic() + _JOIN_S
    while ends:
        for key, _ in waiting.select(max(0.0, min(kill_at, limit, 1e6) - time.monotonic())):
            if key.data is None:
                told = os.read(events, 1 << 16).decode()
                if not told:
                    waiting.unregister(events)
                for line in told.splitlines():
                    print(line, flush=True)
                    if json.loads(line)["event"] == "ready":
                        ready.add(line)
                        if len(ready) == len(pids):
                            limit = time.monotonic() + order.timeout_s + _HANG_S
                            if order.kill in pids:
                                kill_at = time.monotonic() + order.kill_after_s
                continue
            rank = key.data
            waiting.unregister(ends[rank])
            os.close(ends.pop(rank))
            tell(1, rank, "ended", code=os.waitstatus_to_exitcode(os.waitpid(pids[rank], 0)[1]))
        if time.monotonic() >= kill_at and order.kill in ends:
            kill_at = float("inf")
            tell(1, order.kill, "killed")
            os.kill(pids[order.kill], signal.SIGKILL)
        if time.monotonic() >= limit:
            limit = float("inf")
            for rank in ends:
                tell(1, rank, "hangs")
                os.kill(pids[rank], signal.SIGKILL)
    waiting.close()


def tell(to: int, rank: int, event: str, **more: Any) -> None:
    line = json.dumps({"rank": rank, "event": event, "at": time.monotonic(), **more})
    os.write(to, f"{line[:4000]}\n".encode())


# A rank


def be_rank(order: Order, rank: int, tells: int) -> None:
    """Join, work until something fails, tell what, and leave as a script does that catches it."""
    import torch.distributed as dist

    try:
        dist.init_process_group(
            order.backend,
            order.store,
            rank=rank,
            world_size=order.world,
            timeout=timedelta(seconds=order.timeout_s),
        )
        step = CASES[order.case](order)
        step(0)
        step(1)
        dist.barrier()
        tell(tells, rank, "ready")
        for number in count(2):
            step(number)
    except BaseException as error:
        sentence = str(error) or traceback.format_exc()
        tell(tells, rank, "raised", what=f"{type(error).__name__}: {sentence}"[:2000])
        sys.exit(1)


def collectives(order: Order) -> Callable[[int], None]:
    """all_reduce of three sizes, and barrier; on steptime the tensors lie in the arena."""
    import torch
    import torch.distributed as dist

    from steptime import backend

    make = backend.empty if order.backend == "steptime" and order.case == "arena" else torch.empty
    vectors = [make(size).fill_(1) for size in (10, 100_000, 300_000)]

    def step(number: int) -> None:
        dist.all_reduce(vectors[number % 3].fill_(1))
        dist.barrier()

    return step


def messages(_: Order) -> Callable[[int], None]:
    """A ring of messages: some fit into a mailbox, some wait until they are received."""
    import torch
    import torch.distributed as dist

    rank, world = dist.get_rank(), dist.get_world_size()
    vector, landing = torch.ones(300_000), torch.empty(300_000)

    def step(number: int) -> None:
        size = (10, 300_000)[number % 2]
        sent = dist.isend(vector[:size], (rank + 1) % world)
        dist.recv(landing[:size], (rank - 1) % world)
        sent.wait()

    return step


def groups(order: Order) -> Callable[[int], None]:
    """Make a group, use it, destroy it."""
    import torch
    import torch.distributed as dist

    def step(_: int) -> None:
        group = dist.new_group(timeout=timedelta(seconds=order.timeout_s))
        dist.all_reduce(torch.ones(10), group=group)
        dist.destroy_process_group(group)

    return step


def training(order: Order) -> Callable[[int], None]:
    """Steps of a small model under DDP or FSDP2."""
    import torch
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    layers = [nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.ReLU()) for _ in range(4)]
    model: Any = nn.Sequential(*layers)
    if order.case == "ddp":
        model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.2)
    else:
        mesh = init_device_mesh("cpu", (order.world,))
        for layer in (*layers, model):
            fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(_: int) -> None:
        model(torch.ones(4, _WIDTH)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


CASES = {
    "ddp": training,
    "fsdp2": training,
    "messages": messages,
    "arena": collectives,
    "collectives": collectives,
    "groups": groups,
}


if __name__ == "__main__":
    main()
