"""The nine-rank run, live on emulated hosts: measured, predicted, and the origin's time.

    python benchmarks/emulated_nine.py [--hosts 5] [--share 1/16] [--dilation 400] [--csv FILE]

The strategies of the preset marenostrum5-nine run on hosts of its cluster that this machine
emulates, 10 GB/s each way and slower by the dilation: two workers a host and, where there is a
server, it alone on the first; strategies without one leave that host out. Messages and computing
both have the same share of the origin's, so that the shape of a step stays as it was. Every rank
replays its program; its collectives are made by the algorithm that the preset names, on the backend
steptime, over TCP.

*Given*: the links' rates, the times of computing, and that ranks agree on each call before data
moves, which the program that is predicted has as a barrier. *Calibrated*: two figures, what a
message takes beside its bytes (half of a round trip of 4 bytes), and what a socket holds (by how
much earlier than its receiver the sender of one long message is done). *Predicted*: the step, at
fidelity ``message``. Within a host nothing is shaped, and 1 TB/s is given: this machine's memory,
by slow clocks.
*Busy* is the part of the time for which the processors of this machine worked: they carry the bytes
of all hosts, and the slower the links are made, the less they are what a step waits for.
The origin's server also spent 102 ms adding up what came; here processors add, and links do not
wait for them, so that the prediction leaves it out.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np
from emulated_collectives import held, round_trips
from emulated_shared import write_csv

from steptime.cluster import Cluster, cluster_named
from steptime.cluster.what_if import parse_what_if, what_if
from steptime.program import Collective, Compute, Op, Program
from steptime.replay.demand import scaled
from steptime.simulate.step import simulate
from steptime.workloads.data_parallel import data_parallel
from steptime.workloads.models import model_named
from steptime.workloads.presets import Case, preset_named
from steptime.workloads.sync import sync_named

ROOT = Path(__file__).resolve().parents[1]
PRESET = "marenostrum5-nine"
CLUSTER_FILE = ROOT / f"src/steptime/cluster/presets/{PRESET}.toml"
WORKERS_A_HOST = 2
STEPS, WARMUP = 3, 1
ORIGIN = {"server": 720.0}
"""Milliseconds of the origin's step, by strategy."""


@dataclass(frozen=True)
class Row:
    """One strategy: a step in seconds, measured and predicted, with processors that busy."""

    strategy: str
    hosts: int
    ranks: int
    share: str
    dilation: float
    measured: float
    predicted: float
    busy: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def cases(hosts: int, share: Fraction) -> Iterator[Case]:
    """The preset's strategies on so many hosts: one is the server's alone where it is dedicated."""
    preset = preset_named(PRESET)
    for case in preset.cases:
        dedicated = case.program.ranks % WORKERS_A_HOST == 1
        ranks = WORKERS_A_HOST * (hosts - 1) + dedicated
        strategy = case.name.removesuffix("_two_level").removesuffix("_trees")
        owned = sync_named(strategy).owned(ranks, ranks, is_root=True) / ranks
        program = data_parallel(
            model_named("gpt2-124M"),
            strategy,
            ranks=ranks,
            batch=ranks - dedicated,
            dtype="fp32",
            clip=False,
            compute_s=preset.compute_s,
            update_s=preset.update_s * owned,
            dedicated_server=dedicated,
        )
        yield replace(case, program=shrunk(replace(program, name=case.name), share))


def shrunk(program: Program, share: Fraction) -> Program:
    """The program with messages and computing of a share of what they were."""

    def shorter(op: Op) -> Op:
        if isinstance(op, Compute) and op.seconds is not None:
            return replace(op, seconds=op.seconds * float(share))
        return op

    lists = tuple(tuple(map(shorter, ops)) for ops in program.lists)
    return scaled(replace(program, lists=lists), share)


def agreed(program: Program) -> Program:
    """The program with a barrier before each collective, as the backend has its ranks agree."""

    def agreeing(ops: Sequence[Op]) -> tuple[Op, ...]:
        collectives = np.cumsum([isinstance(op, Collective) for op in ops])
        place = [number + int(before) for number, before in enumerate(collectives)]
        made: list[Op] = []
        for op in ops:
            after = tuple(place[one] - (one < 0) * (place[-1] + 1) for one in op.after)
            if isinstance(op, Collective):
                made.append(replace(op, name="agree", kind="barrier", nbytes=0, after=after))
                after = (len(made) - 1,)
            made.append(replace(op, after=after))
        return tuple(made)

    return replace(program, lists=tuple(map(agreeing, program.lists)))


def as_rank(number: int, hosts: int, share: Fraction) -> None:
    """Be a rank of one strategy; rank 0 prints the seconds of its steps and of round trips."""
    import torch
    import torch.distributed as dist

    import steptime.backend  # noqa: F401
    from steptime.replay.backends import stand_in
    from steptime.replay.device import Device
    from steptime.replay.replay import replay
    from steptime.replay.torch_transport import TorchReplayTransport

    torch.set_num_threads(1)
    case = [*cases(hosts, share)][number]
    dist.init_process_group("steptime")
    transport = TorchReplayTransport()
    first, second = 0, WORKERS_A_HOST  # on different hosts
    trips = round_trips(transport.world, first, second)
    early = held(transport.world, first, second)
    before = processor_ticks()
    done = replay(
        case.program,
        transport,
        steps=STEPS,
        warmup=WARMUP,
        compute=stand_in("sleep"),
        device=Device(flops=None, memory=None),
    )
    busy = np.subtract(processor_ticks(), before)
    everyone = transport.world.gather(np.diff(done.bounds))
    if dist.get_rank() == 0:
        steps = everyone.max(axis=0).tolist()
        found = {"steps": steps, "trips": trips, "held": early, "busy": [busy[0] / busy[1]]}
        print(json.dumps(found))
    dist.destroy_process_group()


def processor_ticks() -> tuple[int, int]:
    """Ticks for which the processors of this machine have worked, and all ticks."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def cluster_of(hosts: int) -> str:
    """The preset's cluster with so many hosts, as a file's text: the first is the server's."""
    text = CLUSTER_FILE.read_text().replace("count = 5", f"count = {hosts}")
    text = text.replace('"20GB/s"', '"1000GB/s"')  # nothing is shaped there, and time is dilated
    workers = [f"{host}.{local}" for host in range(1, hosts) for local in range(WORKERS_A_HOST)]
    order = ", ".join(f'"{place}"' for place in (*workers, "0.0"))
    return text.partition("[placement]")[0] + f"[placement]\norder = [{order}]\n"


def run(
    case: Case, number: int, file: Path, share: str, asked: argparse.Namespace
) -> Mapping[str, list[float]]:
    environ = [f"STEPTIME_{kind.upper()}={name}" for kind, name in case.algorithms.items()]
    emulate = [sys.executable, "-m", "steptime", "emulate", str(file), "--quiet"]
    options = ["--ranks", str(case.program.ranks), "--time-dilation", str(asked.dilation)]
    itself = [sys.executable, __file__, "--as-rank", str(number), "--share", share]
    itself += ["--hosts", str(asked.now)]
    done = subprocess.run(
        [*emulate, *options, "--start", "ranks", "--", "env", *environ, *itself],
        stdout=subprocess.PIPE,
        check=True,
    )
    return dict(json.loads(done.stdout))


def rows(hosts: int, share: str, asked: argparse.Namespace) -> Iterator[Row]:
    asked.now = hosts
    file = Path(asked.folder, f"nine-{hosts}.toml")
    file.write_text(cluster_of(hosts))
    cluster = cluster_named(str(file))
    for number, case in enumerate(cases(hosts, Fraction(share))):
        if asked.only and case.name not in asked.only:
            continue
        if case.program.ranks <= WORKERS_A_HOST:  # all on one host: no link is crossed
            continue
        found = run(case, number, file, share, asked)
        predicted = simulate(
            agreed(case.program),
            calibrated(cluster, median(found["trips"]), median(found["held"])),
            algorithms=case.algorithms,
            steps=STEPS,
        ).step_s[-1]
        yield Row(
            case.name,
            hosts,
            case.program.ranks,
            share,
            asked.dilation,
            median(found["steps"]),
            float(predicted),
            found["busy"][0],
        )


def calibrated(cluster: Cluster, latency: float, early: float) -> Cluster:
    """The cluster with this machine's latency and sockets, and processors that add at once."""
    changed = what_if(cluster, parse_what_if(f"latency={1e6 * latency / 2}us"))
    return replace(
        changed,
        device=replace(changed.device, reduction=np.inf),
        send_buffer=max(early - latency, 0.0) * float(cluster.links.bandwidth.min()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[5])
    parser.add_argument("--share", nargs="+", default=["1/16"])
    parser.add_argument("--dilation", type=float, default=400.0)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--folder", default="/tmp")  # noqa: S108
    parser.add_argument("--as-rank", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.as_rank is not None:
        as_rank(asked.as_rank, asked.hosts[0], Fraction(asked.share[0]))
        return
    found = []
    print(f"{'':<24}hosts ranks share    measured   predicted    error  busy")
    for hosts, share in product(asked.hosts, asked.share):
        for row in rows(hosts, share, asked):
            found.append(row)
            origin = ORIGIN.get(row.strategy) if row.hosts == 5 else None
            told = f"  origin, whole: {origin:g} ms" if origin else ""
            print(
                f"{row.strategy:<24}{row.hosts:>5} {row.ranks:>5} {share:>5} "
                f"{1e3 * row.measured:>8.2f} ms {1e3 * row.predicted:>8.2f} ms {row.error:>+8.1%} "
                f"{row.busy:>5.0%}{told}",
                flush=True,
            )
    errors = sorted(abs(row.error) for row in found)
    print(f"{len(found)} rows: median error {median(errors):.1%}, worst {errors[-1]:.1%}")
    if asked.csv:
        write_csv(asked.csv, found)


if __name__ == "__main__":
    main()
