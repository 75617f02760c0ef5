"""Collectives over real packets against their prediction, on emulated hosts.

    python benchmarks/emulated_collectives.py [--hosts 4 8] [--dilation 50] [--csv F]
    python benchmarks/emulated_collectives.py --hosts 2 4 --per-host 2 --ops all_reduce

Every algorithm of five collectives runs on hosts of the cluster office-10gbe that this machine
emulates: TCP through shaped virtual links, messages by gloo or, with ``--backend steptime``, over
that backend's own connections. The same schedules are simulated at
fidelity ``message``. *Given*: the links' rates. *Calibrated*: two figures, what a message takes
beside its bytes, half of a round trip of 4 bytes between two of these hosts, and how many bytes a
socket holds, by how much earlier than its receiver the sender of one long message is done.
*Predicted*: every time in the table, from the moment that all ranks begin to that at which the last
is done; told is the median of some turns, in which algorithms go one after the other. Times are the
cluster's: links and clocks are slower by the time dilation, which makes what this machine's
processors do small. With several ranks a host, whose messages to each other cost no link, the
flat ring is set against two levels in the end.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from emulated_shared import cluster_text, write_csv

from steptime import clock
from steptime.cluster import Cluster, cluster_named
from steptime.cluster.what_if import parse_what_if, what_if
from steptime.collectives import algorithms, schedule
from steptime.collectives.selection import blocks_for
from steptime.simulate.carry import carry
from steptime.units import parse_bytes

CLUSTER = "office-10gbe"
OPS = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all")
AHEAD_S = 0.03
"""How long before it ranks agree on the moment to begin, in seconds of this machine."""

ROUND_TRIPS = 200
LONG = 16 << 20
"""Bytes of the message that tells how many of them a socket holds."""


@dataclass(frozen=True)
class Row:
    """One algorithm at one size: seconds, measured and predicted."""

    op: str
    algorithm: str
    hosts: int
    ranks: int
    nbytes: int
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def as_rank(sizes: Sequence[int], ops: Sequence[str], turns: int, backend: str) -> None:
    """Be a rank: time every algorithm; rank 0 prints, as JSON, seconds by op, name and size."""
    import numpy as np
    import torch

    import steptime.backend  # noqa: F401
    from steptime.dtypes import dtype_named
    from steptime.measure.exact import ExactData
    from steptime.measure.operation import operation_named
    from steptime.measure.torch_transport import TorchTransport
    from steptime.measure.trial import prepare, trial

    torch.set_num_threads(1)
    torch.distributed.init_process_group(backend)
    transport = TorchTransport(torch.device("cpu"))
    rank, ranks = transport.rank, transport.ranks
    local = [int(n) for n in transport.gather(np.array(float(_host_number())))]
    found: dict[str, list[float]] = defaultdict(list)
    other = next(rank for rank, host in enumerate(local) if host != local[0])
    found["round trip"] = round_trips(transport, 0, other)
    found["held"] = held(transport, 0, other)
    for op in ops:
        operation = operation_named(op)
        for nbytes in sizes:
            count = nbytes // 4 // (ranks if op != "all_reduce" and op != "broadcast" else 1)
            data = ExactData(operation, dtype_named("float32"), "sum", ranks, 0, count)
            able = {
                name: made
                for name, algorithm in algorithms(op).items()
                if algorithm.serves(ranks)
                and (
                    made := trial(
                        transport, data, algorithm, tuple(local), in_place=operation.in_place
                    )
                )
            }
            for turn in range(turns + 1):
                for name, one in able.items():
                    prepare(transport, one, data)
                    seconds = _timed(transport, one.run)
                    if turn:  # the first connects
                        found[f"{op} {name} {nbytes}"].append(seconds)
    if rank == 0:
        print(json.dumps(found))
    torch.distributed.destroy_process_group()


def _host_number() -> int:
    import platform

    return int(platform.node().removeprefix("host"))


def _timed(transport: Any, run: Any) -> float:
    """Seconds from the moment that all begin until the last is done, by the dilated clock."""
    import numpy as np

    transport.barrier()
    begin = transport.gather(np.array(time.perf_counter() + AHEAD_S))[0]
    while time.perf_counter() < begin:
        pass
    run()
    ends = transport.gather(np.array(time.perf_counter()))
    return float(ends.max() - begin) / clock.DILATION


def round_trips(transport: Any, first: int = 0, second: int = 1) -> list[float]:
    """Half of each round trip of 4 bytes between two ranks, by the dilated clock; others: none."""
    from steptime.dtypes import dtype_named

    number = transport.empty(1, dtype_named("float32"))
    here = transport.rank
    found = []
    for _ in range(ROUND_TRIPS if here in (first, second) else 0):
        begin = clock.now()
        for sender, receiver in ((first, second), (second, first)):
            if here == sender:
                transport.send(number, receiver)()
            else:
                transport.receive(number, sender)()
        found.append((clock.now() - begin) / 2)
    return found


def held(transport: Any, first: int = 0, second: int = 1) -> list[float]:
    """How much earlier than its receiver the sender of a long message is done, in seconds."""
    import numpy as np

    from steptime.dtypes import dtype_named

    found = []
    number = transport.empty(LONG // 4, dtype_named("float32"))
    for _ in range(3):
        transport.barrier()
        if transport.rank == first:
            transport.send(number, second)()
        elif transport.rank == second:
            transport.receive(number, first)()
        ends = transport.gather(np.array(time.perf_counter()))
        found.append(float(ends[second] - ends[first]) / clock.DILATION)
    return found


def measured(cluster: str, ranks: int, asked: argparse.Namespace) -> dict[str, list[float]]:
    """What ranks on an emulated cluster timed."""
    emulate = [sys.executable, "-m", "steptime", "emulate", cluster, "--quiet"]
    options = ["--ranks", str(ranks), "--time-dilation", str(asked.dilation)]
    if asked.congestion_control:
        options += ["--congestion-control", asked.congestion_control]
    itself = [sys.executable, __file__, "--as-rank", "--turns", str(asked.turns)]
    itself += ["--backend", asked.backend]
    done = subprocess.run(
        [*emulate, *options, "--", *itself, "--sizes", *asked.sizes, "--ops", *asked.ops],
        stdout=subprocess.PIPE,
        check=True,
    )
    return dict(json.loads(done.stdout))


def rows(hosts: int, asked: argparse.Namespace) -> Iterator[Row]:
    ranks, host_of = (
        hosts * asked.per_host,
        [rank // asked.per_host for rank in range(hosts * asked.per_host)],
    )
    with TemporaryDirectory() as folder:
        named = f"{CLUSTER}:hosts={hosts}"
        if asked.per_host > 1:
            named = f"{folder}/cluster.toml"
            text = cluster_text("an office", hosts, "1.175GB/s", asked.per_host, "1000GB/s")
            Path(named).write_text(text)
        cluster: Cluster = cluster_named(named)
        found = measured(named, ranks, asked)
    latency = median(found.pop("round trip"))
    buffer = max(median(found.pop("held")) - latency, 0.0) * float(cluster.links.bandwidth.min())
    print(
        f"\n{hosts} hosts, {ranks} ranks; calibrated: a message of 4 bytes takes "
        f"{1e6 * latency:.1f} us, and a socket holds {buffer / 2**20:.2f} MiB"
    )
    cluster = what_if(cluster, parse_what_if(f"latency={1e6 * latency / 2}us"))
    cluster = replace(cluster, send_buffer=buffer)
    devices = cluster.placed(ranks)
    for key, seconds in found.items():
        op, name, size = key.split()
        nbytes = int(size)
        plan = schedule(
            algorithms(op)[name], ranks, hosts=tuple(host_of), blocks=blocks_for(nbytes)
        )
        predicted = carry(plan, cluster, devices, nbytes).seconds
        yield Row(op, name, hosts, ranks, nbytes, median(seconds), predicted)


def two_levels(found: Sequence[Row]) -> None:
    """Print by how much two levels are faster than the flat ring, measured and predicted."""
    by = {(row.hosts, row.nbytes, row.op, row.algorithm): row for row in found}
    for (hosts, nbytes, op, name), ring in by.items():
        levels = by.get((hosts, nbytes, op, "two_level"))
        if name == "ring" and levels:
            print(
                f"{op} of {nbytes / 2**20:g} MiB on {hosts} hosts: two levels are "
                f"{ring.measured / levels.measured:.2f}x as fast as the flat ring, "
                f"predicted {ring.predicted / levels.predicted:.2f}x"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--per-host", type=int, default=1, help="ranks of each host")
    parser.add_argument("--ops", nargs="+", default=list(OPS), choices=OPS)
    parser.add_argument("--backend", choices=("gloo", "steptime"), default="gloo")
    parser.add_argument("--dilation", type=float, default=50.0)
    parser.add_argument("--sizes", nargs="+", default=["1MiB", "4MiB", "16MiB"])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--congestion-control", help="TCP's; default: what emulate gives hosts")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--as-rank", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    sizes = [parse_bytes(size) for size in asked.sizes]
    if asked.as_rank:
        as_rank(sizes, asked.ops, asked.turns, asked.backend)
        return
    found = []
    for hosts in asked.hosts:
        for row in rows(hosts, asked):
            found.append(row)
            print(
                f"{row.op + ' ' + row.algorithm:<34}{row.nbytes / 2**20:>6.2f} MiB "
                f"{1e3 * row.measured:>8.2f} ms {1e3 * row.predicted:>8.2f} ms {row.error:>+8.1%}",
                flush=True,
            )
    errors = sorted(abs(row.error) for row in found)
    print(
        f"{len(found)} rows: median error {median(errors):.1%}, "
        f"of nine in ten at most {errors[int(0.9 * len(errors))]:.1%}, worst {errors[-1]:.1%}"
    )
    if asked.per_host > 1:
        two_levels(found)
    if asked.csv:
        write_csv(asked.csv, found)


if __name__ == "__main__":
    main()
