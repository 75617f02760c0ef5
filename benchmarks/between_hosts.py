"""The backend between hosts beside gloo: both over TCP, in one run, call by call in turn.

    python benchmarks/between_hosts.py [--hosts 2] [--sizes 4B 64KiB 1MiB 16MiB] [--ops send …]

Each rank is a host of its own, in a process namespace, and all meet on the loopback of this
machine: a network of no latency, on which one sees what the backends themselves take. Ten calls of
one backend and ten of the other take turns; a row has the median of their mean times on rank 0,
with quartiles. ``send`` is a message of that size and one byte back; *bare* is the same by two
processes in C that do nothing else (``loopback.c``).
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from steptime.units import parse_bytes

NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
OPS = ("send", "barrier", "all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all")
BATCH = 10
BACKENDS = ("steptime", "gloo")


def call_of(op: str, nbytes: int, group: Any) -> Callable[[], object]:
    """One call of a collective on vectors of so many bytes on each rank."""
    import torch
    import torch.distributed as dist

    ranks, rank = dist.get_world_size(), dist.get_rank()
    elements = max(1, nbytes // 4)
    vector, byte = torch.zeros(elements), torch.zeros(1, dtype=torch.uint8)
    part = torch.zeros(max(1, elements // ranks))
    whole = torch.zeros(ranks * part.numel())

    def there_and_back() -> None:
        if rank == 0:
            dist.send(vector, 1, group)
            dist.recv(byte, 1, group)
        elif rank == 1:
            dist.recv(vector, 0, group)
            dist.send(byte, 0, group)

    return {
        "send": there_and_back,
        "barrier": lambda: dist.barrier(group),
        "all_reduce": lambda: dist.all_reduce(vector, group=group),
        "broadcast": lambda: dist.broadcast(vector, 0, group),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part, group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
        "all_to_all": lambda: dist.all_to_all_single(torch.empty_like(whole), whole, group=group),
    }[op]


def as_rank(asked: argparse.Namespace) -> None:
    import torch
    import torch.distributed as dist

    import steptime.backend  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("steptime")
    groups = {"steptime": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    for op in asked.ops:
        for size in asked.sizes if op != "barrier" else ["0B"]:
            nbytes = parse_bytes(size)
            calls = {name: call_of(op, nbytes, group) for name, group in groups.items()}
            turns = 30 if nbytes < 1 << 20 else 8
            took: dict[str, list[float]] = {name: [] for name in calls}
            for call in calls.values():
                mean_of(call)  # memory is touched, and connections grow
            for turn in range(turns):
                for name in BACKENDS if turn % 2 else BACKENDS[::-1]:
                    dist.barrier()
                    took[name].append(mean_of(calls[name]))
            if dist.get_rank() == 0:
                print(json.dumps([op, size, took]), flush=True)
    dist.destroy_process_group()


def mean_of(call: Callable[[], object]) -> float:
    """Seconds that one of a batch of calls takes."""
    begin = time.perf_counter()
    for _ in range(BATCH):
        call()
    return (time.perf_counter() - begin) / BATCH


def bare(program: Path, nbytes: int) -> float:
    """Microseconds of a message there and a byte back, by nothing but TCP."""
    times = 3000 if nbytes < 1 << 20 else 60
    done = subprocess.run(
        [program, str(nbytes), str(times)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[2])
    parser.add_argument("--sizes", nargs="+", default=["4B", "64KiB", "1MiB", "16MiB"])
    parser.add_argument("--ops", nargs="+", default=OPS, choices=OPS)
    parser.add_argument("--as-rank", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.as_rank:
        as_rank(asked)
        return
    with TemporaryDirectory() as folder:
        program = Path(folder, "loopback")
        source = Path(__file__).with_name("loopback.c")
        subprocess.run(["gcc", "-O2", "-o", program, source], check=True)
        print(
            f"{'':<15}hosts    size   steptime (quartiles)      gloo (quartiles)  times      bare"
        )
        for hosts in asked.hosts:
            for op, size, took in measured(hosts, asked):
                limit = f"{bare(program, parse_bytes(size)):>8.0f} us" if op == "send" else ""
                print(row(op, hosts, size, took) + limit, flush=True)


def measured(hosts: int, asked: argparse.Namespace) -> list[Any]:
    """What rank 0 of so many prints, line by line."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    itself = [sys.executable, "-W", "ignore", __file__, "--as-rank"]
    itself += ["--ops", *asked.ops, "--sizes", *asked.sizes]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(hosts)}
    ranks = [
        subprocess.Popen(
            [*NAMESPACE, *itself],
            env={**os.environ, **place, "RANK": str(rank), "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE if rank == 0 else None,
            text=True,
        )
        for rank in range(hosts)
    ]
    told, _ = ranks[0].communicate(timeout=900)
    for rank in ranks[1:]:
        rank.wait(timeout=60)
    return [json.loads(line) for line in told.splitlines()]


def row(op: str, hosts: int, size: str, took: dict[str, list[float]]) -> str:
    quartiles = {name: 1e6 * np.percentile(took[name], (25, 50, 75)) for name in BACKENDS}
    cells = (f"{q[1]:>8.0f} us ({q[0]:.0f} to {q[2]:.0f})".ljust(26) for q in quartiles.values())
    times = quartiles["gloo"][1] / quartiles["steptime"][1]
    return f"{op:<15}{hosts:>5} {size:>7} " + "".join(cells) + f"{times:>4.1f}x "


if __name__ == "__main__":
    main()
