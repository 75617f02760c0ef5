"""The verb ``topo``: what this machine is, or another whose topology was saved."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steptime import rundir
from steptime.cli.measuring import columns_of_stdout, crowding, ranks_here, teller, whereabouts
from steptime.cli.options import Flat, OutputOptions, RankOptions
from steptime.cli.printing import say, writing
from steptime.cli.ranks import Place, on_ranks
from steptime.errors import UsageError
from steptime.units import format_flops, format_rate

if TYPE_CHECKING:
    from steptime.measure.bench import Bench


_DEFAULT = asdict(RankOptions())


@dataclass(frozen=True)
class _Asked:
    """What --measure is asked for."""

    cluster_file: Path | None
    ranks: RankOptions
    output: OutputOptions


def topo(
    *,
    file: Path | None = None,
    explain: bool = False,
    svg: Path | None = None,
    measure: bool = False,
    cluster_file: Path | None = None,
    ranks: Flat[RankOptions] = RankOptions(),
    output: Flat[OutputOptions] = OutputOptions(),
) -> int:
    """What is this machine?

    GPUs, NICs and what lies between them as nvidia-smi topo -m shows it; without a GPU the NUMA
    nodes. The options about ranks belong to --measure.

    Parameters
    ----------
    file
        Show another machine: what nvidia-smi topo -m printed there, or the XML that NCCL wrote
        with NCCL_TOPO_DUMP_FILE.
    explain
        Say what each mark means for training, with the bandwidth to expect, and which pair of GPUs
        bounds a ring.
    svg
        Draw the tree of the host and the matrix to this file.
    measure
        Start ranks here, measure latency and bandwidth between every two of them, and what a
        device computes and copies, and write a cluster file of it.
    cluster_file
        The cluster file that --measure writes; default: cluster.toml in the run's folder.

    """
    if measure:
        if file or svg or explain:
            raise UsageError(
                "--measure measures the ranks that run here: leave --file, --svg and --explain out"
            )
        return _measured(_Asked(cluster_file, ranks, output))
    given = {"cluster-file": cluster_file, "out": output.out}
    given |= {name: value for name, value in asdict(ranks).items() if value != _DEFAULT[name]}
    for option, value in given.items():
        if value is not None:
            raise UsageError(f"--{option} belongs to --measure: add that, or leave it out")
    _show(file, svg, output, explain=explain)
    return 0


def _show(file: Path | None, svg: Path | None, output: OutputOptions, *, explain: bool) -> None:
    from steptime.topo.explain import explained
    from steptime.topo.files import read_topology
    from steptime.topo.machine import this_machine
    from steptime.topo.picture import picture
    from steptime.topo.rates import expected
    from steptime.topo.record import record
    from steptime.topo.ring import best_ring
    from steptime.topo.terminal import print_topology

    topology = read_topology(file) if file else this_machine()
    rates = expected(topology)
    ring = best_ring(topology, rates)
    if svg:
        with writing(svg):
            rundir.write_atomic(svg, picture(topology, explained(topology, rates)).encode())
    if output.json:
        say(json.dumps(record(topology, rates, ring)))
        return
    console = output.console()
    with console.capture() as text:
        print_topology(console, topology, rates, ring, explain=explain)
    say("\n".join(line.rstrip() for line in text.get().rstrip("\n").splitlines()))
    if svg:
        say(f"\npicture: {svg}")


def _measured(asked: _Asked) -> int:
    from steptime.measure.place import check_place

    def check(size: int) -> None:
        check_place(_links(size), asked.ranks.backend, size, ranks_here(size))

    def work(place: Place) -> None:
        _measure(place, asked)

    cores = len(os.sched_getaffinity(0))
    return on_ranks("topo", asked.ranks, asked.output, min(max(2, cores), 8), check, work)


def _links(ranks: int) -> "Bench":
    """How pairs are measured: as bench measures them by default."""
    from steptime.collectives.selection import BUILTIN
    from steptime.measure.options import BenchOptions

    return BenchOptions(maxbytes="1MiB").bench("sendrecv", BUILTIN, ranks)


def _measure(place: Place, asked: _Asked) -> None:
    from steptime.measure.device import measure_device
    from steptime.measure.place import make_carrier
    from steptime.measure.session import measure_links, pair_record
    from steptime.topo.cluster_file import cluster_file

    carrier = make_carrier(asked.ranks.backend)
    tell = teller(carrier.rank, asked.output, aside=asked.output.json)
    tell("\n".join([*crowding(place), f"{carrier.ranks} ranks on {carrier.library}"]))
    device = measure_device(carrier, asked.ranks.backend, place.world.local_size)
    pairs = measure_links(carrier, _links(carrier.ranks))
    if carrier.rank == 0:
        path = asked.cluster_file or place.out / "cluster.toml"
        run: dict[str, Any] = {
            "verb": "topo",
            "source": "measured",
            **whereabouts(place, asked.ranks),
            "library": carrier.library,
            "device": {"source": "measured", **asdict(device)},
            "pairs": [pair_record(pair) for pair in pairs],
            "cluster_file": str(path),
            "environment": rundir.environment(),
        }
        rundir.write_record(place.out, run)
        title, source = _described(run)
        with writing(path):
            text = cluster_file(title, source, asdict(device), pairs)
            rundir.write_atomic(path, text.encode())
        if asked.output.json:
            say(json.dumps(run))
        else:
            say(_answer(run))
    carrier.barrier()  # an error here would end rank 0 before it has written


def _described(run: dict[str, Any]) -> tuple[str, str]:
    """The title and the source of the cluster file."""
    where = run["environment"]
    title = f"{where['host']}: {run['ranks']} ranks, {run['device']['name']} each"
    source = (
        f"measured by steptime topo --measure on {where['time']}: {run['library']}, "
        f"threads a rank: {run['threads']}, {where['cpu']} with {where['cores']} cores; one pair "
        "at a time, messages of 1 MiB; device rates while all ranks work"
    )
    return title, source


def _answer(run: dict[str, Any]) -> str:
    from steptime.report.links import link_lines

    device = run["device"]
    rates = [f"{dtype} {format_flops(flops)}" for dtype, flops in device["flops"].items()]
    return "\n".join(
        [
            *link_lines(run["pairs"], columns_of_stdout() or 80),
            f"device (measured, all ranks at work): {', '.join(rates)},",
            f"  copy {format_rate(device['memory_bandwidth'])}, "
            f"add {format_rate(device['reduction'])}",
            f"cluster file: {run['cluster_file']}",
        ]
    )
