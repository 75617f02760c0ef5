"""One MPI program three times: over real packets, simulated by SMPI, and simulated here.

    python benchmarks/emulated_smpi.py [--hosts 4] [--sizes 1MiB 4MiB] [--dilation 100] [--turns 5]

The program (rounds.c) carries out the rounds of an algorithm by MPI_Isend, MPI_Irecv and
MPI_Waitall. MPICH runs it on hosts of office-10gbe that this machine emulates; SMPI (Debian's
libsimgrid-dev) simulates the same source on the same links, once as Debian ships it, with factors
fitted to another network, and once with its model of shared links alone (CM02); the schedules that
it was made of are simulated here, with the send buffer of sockets and without (*no buffer*).
*Given*: the links' rates. *Calibrated*, for each simulator by itself: the links' latency, by which
a message of 4 bytes takes as long as over real packets; and for this one what a socket holds: how
much earlier than its receiver the sender of one long message is done, times the rate.
*Predicted*: every time in the table, from the moment that all ranks begin until the last is done.
"""

import argparse
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from emulated_collectives import CLUSTER, OPS
from emulated_shared import write_csv

from steptime.cluster import Cluster, cluster_named
from steptime.cluster.what_if import parse_what_if, what_if
from steptime.collectives import Schedule, algorithms, schedule
from steptime.collectives.selection import blocks_for
from steptime.simulate.carry import carry
from steptime.units import parse_bytes

SOURCE = Path(__file__).with_name("rounds.c")
BIN = Path(sys.executable).parent
LIMIT_S = 1200
TRIPS = 100
"""Round trips of the case that calibrates latencies."""

LONG = 16 << 20
"""Bytes of the message that tells how many of them a socket takes before they leave."""

SMPI = ("--cfg=smpi/simulate-computation:no", "--log=root.thres:error")
PLAIN = ("network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:1e30")
SIMULATIONS = "steptime", "no buffer", "SMPI", "CM02"
MODELS = {"SMPI": (), "CM02": tuple(f"--cfg={one}" for one in PLAIN)}


@dataclass(frozen=True)
class Row:
    """One algorithm at one size: seconds, over packets and by three simulations."""

    op: str
    algorithm: str
    hosts: int
    nbytes: int
    measured: float
    steptime: float
    plain: float
    smpi: float
    cm02: float

    def errors(self) -> list[float]:
        """Of each simulation in the order of SIMULATIONS."""
        simulated = self.steptime, self.plain, self.smpi, self.cm02
        return [one / self.measured - 1 for one in simulated]


def lines(plan: Schedule, case: str, nbytes: int) -> Iterator[str]:
    """The messages of a schedule as rounds.c reads them, rank by rank."""
    moved: dict[tuple[int, int, int], list[int]] = defaultdict(lambda: [0, 0])
    for number, transfers in enumerate(plan.all_rounds):
        for src, dst, count in transfers[["src", "dst", "count"]].tolist():
            if src != dst:
                moved[src, number, dst][0] += count
                moved[dst, number, src][1] += count
    for (rank, number, peer), both in sorted(moved.items()):
        sent, received = (count * nbytes // plan.chunks for count in both)
        yield f"{case} {rank} {number} {peer} {sent} {received}"


def trips(hosts: int) -> Iterator[str]:
    """Messages of 4 bytes there and back between the first two ranks; the others have none."""
    for rank in (0, 1):
        for number in range(2 * TRIPS):
            sends = number % 2 == rank
            yield f"trips {rank} {number} {1 - rank} {4 * sends} {4 * (not sends)}"
    yield from (f"trips {rank} 0 0 0 0" for rank in range(2, hosts))


def one_message(hosts: int) -> Iterator[str]:
    """A long message from the first rank to the second."""
    yield from (f"long 0 0 1 {LONG} 0", f"long 1 0 0 0 {LONG}")
    yield from (f"long {rank} 0 0 0 0" for rank in range(2, hosts))


def seconds(command: Sequence[str | Path]) -> Mapping[str, tuple[float, float]]:
    """The median seconds of each case: until the last rank was done, and until rank 0 was."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    turns: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for line in done.stdout.splitlines():
        case, last, own = line.split()
        turns[case].append((float(last), float(own)))
    # The first turn connects.
    medians = {
        case: map(median, zip(*(each[1:] or each), strict=True)) for case, each in turns.items()
    }
    return {case: (last, own) for case, (last, own) in medians.items()}


@dataclass(frozen=True)
class Peer:
    """SMPI with one of its models, on so many hosts."""

    folder: Path
    hosts: int
    bandwidth: float
    options: tuple[str, ...]

    def simulated(self, rounds: Path, message_s: float) -> Mapping[str, float]:
        """Seconds of every case, where a message of 4 bytes takes ``message_s``."""
        without, slope = (self._run(rounds, latency)["trips"] for latency in (1e-9, 1e-6))
        latency = 1e-9 + (message_s * 2 * TRIPS - without) * (1e-6 - 1e-9) / (slope - without)
        return self._run(rounds, max(latency, 1e-9))

    def _run(self, rounds: Path, latency: float) -> dict[str, float]:
        platform, names = self.folder / "platform.xml", self.folder / "hosts"
        platform.write_text(
            '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd"><platform version="4.1">'
            f'<cluster id="c" prefix="host" suffix="" radical="0-{self.hosts - 1}" speed="1Gf" '
            f'bw="{self.bandwidth}Bps" lat="{latency}s" sharing_policy="SPLITDUPLEX"/></platform>'
        )
        names.write_text("".join(f"host{number}\n" for number in range(self.hosts)))
        start = ["smpirun", "-np", str(self.hosts), "-platform", platform, "-hostfile", names]
        command = [*start, *SMPI, *self.options, self.folder / "simulated", rounds, "1", "1"]
        return {case: last for case, (last, _) in seconds(command).items()}


def over_packets(
    rounds: Path, hosts: int, asked: argparse.Namespace
) -> Mapping[str, tuple[float, float]]:
    """As ``seconds``, by MPICH on emulated hosts, as on the cluster."""
    cluster = f"{CLUSTER}:hosts={hosts}"
    emulate = [sys.executable, "-m", "steptime", "emulate", cluster, "--quiet"]
    slowed = ["--time-dilation", str(asked.dilation), "--start", "once", "--"]
    # Each message is sent at once, whatever its size, and none asks its receiver first.
    eager = ["env", "UCX_TLS=tcp", "UCX_RNDV_THRESH=inf"]
    start = [*eager, BIN / "mpiexec", "-n", str(hosts), rounds.parent / "live"]
    found = seconds([*emulate, *slowed, *start, rounds, str(asked.turns + 1), "0.05"])
    return {case: (a / asked.dilation, b / asked.dilation) for case, (a, b) in found.items()}


def rows(hosts: int, asked: argparse.Namespace, folder: Path) -> Iterator[Row]:
    cluster: Cluster = cluster_named(f"{CLUSTER}:hosts={hosts}")
    plans = {
        f"{op}/{name}/{nbytes}": schedule(
            algorithm, hosts, hosts=tuple(range(hosts)), blocks=blocks_for(nbytes)
        )
        for op in OPS
        for nbytes in map(parse_bytes, asked.sizes)
        for name, algorithm in algorithms(op).items()
        if algorithm.serves(hosts)
    }
    rounds = folder / "rounds"
    of_plans = (one for case, plan in plans.items() for one in lines(plan, case, bytes_of(case)))
    rounds.write_text("\n".join([*trips(hosts), *one_message(hosts), *of_plans, ""]))
    measured = over_packets(rounds, hosts, asked)
    message_s = measured["trips"][0] / (2 * TRIPS)
    bandwidth = float(cluster.links.bandwidth[0])  # all are the same
    last, sent = measured["long"]
    held = max(last - sent - message_s, 0.0) * bandwidth
    print(
        f"\n{hosts} hosts; calibrated: a message of 4 bytes takes {1e6 * message_s:.2f} us, and a "
        f"socket holds {held / 2**20:.2f} MiB"
    )
    smpi, cm02 = (
        Peer(folder, hosts, bandwidth, options).simulated(rounds, message_s)
        for options in MODELS.values()
    )
    plain = what_if(cluster, parse_what_if(f"latency={1e6 * message_s / 2}us"))
    holding = replace(plain, send_buffer=held)
    for case, plan in plans.items():
        op, name, _ = case.split("/")
        ours, without = (
            carry(plan, one, np.arange(hosts), bytes_of(case)).seconds for one in (holding, plain)
        )
        yield Row(
            *(op, name, hosts, bytes_of(case), measured[case][0]),
            *(ours, without, smpi[case], cm02[case]),
        )


def bytes_of(case: str) -> int:
    return int(case.rpartition("/")[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[4])
    parser.add_argument("--sizes", nargs="+", default=["1MiB", "4MiB"])
    parser.add_argument("--dilation", type=float, default=100.0)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--csv", type=Path)
    asked = parser.parse_args()
    found = []
    with TemporaryDirectory() as at:
        folder = Path(at)
        for compiler, program in ((BIN / "mpicc", "live"), ("smpicc", "simulated")):
            subprocess.run([compiler, "-O2", SOURCE, "-o", folder / program], check=True)
        for hosts in asked.hosts:
            for row in rows(hosts, asked, folder):
                found.append(row)
                if len(found) == 1:
                    heads = "".join(f"{name:>10}" for name in SIMULATIONS)
                    print(f"{'':<44}{'packets':>11}{heads}")
                print(
                    f"{row.op + ' ' + row.algorithm:<34}{row.nbytes / 2**20:>6.2f} MiB "
                    f"{1e3 * row.measured:>8.2f} ms"
                    + "".join(f"{error:>+10.1%}" for error in row.errors()),
                    flush=True,
                )
    for name, errors in zip(
        SIMULATIONS, zip(*(row.errors() for row in found), strict=True), strict=True
    ):
        sizes = sorted(map(abs, errors))
        print(f"{name:<9} median error {median(sizes):.1%}, worst {sizes[-1]:.1%}")
    if asked.csv:
        write_csv(asked.csv, found)


if __name__ == "__main__":
    main()
