"""``topo``: What is this machine?"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steptime import files
from steptime.cli.measuring import (
    columns_of_stdout,
    oversubscription,
    provenance,
    ranks_here,
    teller,
)
from steptime.cli.options import Flat, OutputOptions, RankOptions
from steptime.cli.printing import say, say_json, writing
from steptime.cli.ranks import Place, on_ranks
from steptime.errors import UsageError
from steptime.runs import run_folder
from steptime.units import format_bytes, format_flops, format_rate, format_seconds

if TYPE_CHECKING:
    from steptime.cluster import CallTimes
    from steptime.measure.bench import Bench
    from steptime.measure.core import DeviceRates
    from steptime.measure.transport import BenchTransport
    from steptime.study.calibrate import Timed


_DEFAULT = asdict(RankOptions())
_PAIR_BYTES = "4MiB"
_CALL_BYTES = "128MiB"  # twice the largest vector, for what a library copies


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
        Start ranks here, measure latency and bandwidth between every two of them and of all at
        once, what the library's calls cost beside that, and what a device computes and copies, and
        write a cluster file of it.
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
    from steptime.report.topo_picture import picture
    from steptime.report.topo_table import print_topology
    from steptime.topo.explain import explained
    from steptime.topo.files import read_topology
    from steptime.topo.machine import this_machine
    from steptime.topo.rates import expected
    from steptime.topo.record import record
    from steptime.topo.ring import best_ring

    topology = read_topology(file) if file else this_machine()
    rates = expected(topology)
    ring = best_ring(topology, rates)
    if svg:
        with writing(svg):
            files.write_atomic(svg, picture(topology, explained(topology, rates)).encode())
    if output.json:
        say_json(record(topology, rates, ring))
        return
    say(output.rendered(lambda c: print_topology(c, topology, rates, ring, explain=explain)))
    if svg:
        say(f"\npicture: {svg}")


def _measured(asked: _Asked) -> int:
    from steptime.measure.place import check_place

    def check(size: int) -> None:
        check_place(_links(size, _CALL_BYTES), asked.ranks.backend, size, ranks_here(size))

    def work(place: Place) -> None:
        _measure(place, asked)

    cores = len(os.sched_getaffinity(0))
    return on_ranks("topo", asked.ranks, asked.output, min(max(2, cores), 8), check, work)


def _links(ranks: int, largest: str = _PAIR_BYTES) -> "Bench":
    """How pairs are measured: as bench measures them, by messages larger than a core's cache."""
    from steptime.collectives.selection import BUILTIN
    from steptime.measure.options import BenchOptions

    return BenchOptions(maxbytes=largest).bench("sendrecv", BUILTIN, ranks)


def _measure(place: Place, asked: _Asked) -> None:
    from steptime.measure.place import hosts_of, make_transport
    from steptime.measure.session import measure_links, pair_record
    from steptime.replay.backends import transport_of
    from steptime.study.calibrate import measure_calls
    from steptime.study.call_times import busiest, together
    from steptime.topo.cluster_file import calls_section, cluster_file

    backend = asked.ranks.backend
    transport = make_transport(backend)
    tell = teller(transport.rank, asked.output, aside=asked.output.json)
    tell("\n".join([*oversubscription(place), f"{transport.ranks} ranks on {transport.library}"]))
    device = _device(transport, place, asked)
    pairs = measure_links(transport, _links(transport.ranks))
    one_host = len(set(hosts_of(transport))) == 1
    # Only CPU ranks are timed as a proxy calls: they share cores and memory.
    timed = measure_calls(lambda: transport_of(backend)) if one_host and backend != "nccl" else None
    if transport.rank == 0:
        path = asked.cluster_file or place.out / "cluster.toml"
        run: dict[str, Any] = {
            "verb": "topo",
            "source": "measured",
            **provenance(place, asked.ranks),
            "library": transport.library,
            "device": {"source": "measured", **asdict(device)},
            "pairs": [pair_record(pair) for pair in pairs],
            "cluster_file": str(path),
            "environment": run_folder.environment(),
        }
        title, source = _described(run)
        at_once, port = (together(timed), busiest(pairs)) if timed else (None, None)
        text = cluster_file(title, source, asdict(device), pairs, at_once, port)
        if timed and at_once and port:
            run |= {"together_GBps": at_once / 1e9, "port_GBps": port / 1e9}
            calls = _followed(timed, text)
            run["calls"] = _call_rows(calls)
            text += calls_section(calls)
        run_folder.write_record(place.out, run)
        with writing(path):
            files.write_atomic(path, text.encode())
        if asked.output.json:
            say_json(run)
        else:
            say(_answer(run))
    transport.barrier()  # an error here would end rank 0 before it has written


def _device(transport: "BenchTransport", place: Place, asked: _Asked) -> "DeviceRates":
    backend, here = asked.ranks.backend, place.world.local_size
    if backend == "mpi":
        from steptime.measure.core import measure_core

        return measure_core(transport, place.threads, here)
    from steptime.measure.device import measure_device

    return measure_device(transport, backend, here)


def _followed(timed: "Sequence[Timed]", text: str) -> "Mapping[str, tuple[CallTimes, ...]]":
    """The calls on the cluster of a file."""
    from steptime.cluster import parse_cluster
    from steptime.study.call_times import call_times

    return call_times(timed, parse_cluster(text, "measured"))


def _call_rows(calls: "Mapping[str, tuple[CallTimes, ...]]") -> list[dict[str, Any]]:
    """What run.json holds of the calls."""
    return [
        {"source": "measured", "kind": kind, **asdict(one)}
        for kind, measured in calls.items()
        for one in measured
    ]


def _described(run: dict[str, Any]) -> tuple[str, str]:
    """The title and the source of the cluster file."""
    where = run["environment"]
    title = f"{where['host']}: {run['ranks']} ranks, {run['device']['name']} each"
    source = (
        f"measured by steptime topo --measure on {where['time']}: {run['library']}, "
        f"threads a rank: {run['threads']}, {where['cpu']} with {where['cores']} cores; one pair "
        "at a time, messages of 4 MiB; all pairs, calls and device rates while all ranks work"
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
            *_call_lines(run),
            f"cluster file: {run['cluster_file']}",
        ]
    )


def _call_lines(run: dict[str, Any]) -> Iterator[str]:
    if "calls" not in run:
        return
    yield f"all pairs at once (measured): {format_rate(run['together_GBps'] * 1e9)} in all,"
    yield f"  a rank sends and receives {format_rate(run['port_GBps'] * 1e9)} at once"
    sizes = [format_bytes(size) for size in run["calls"][0]["sizes"]]
    yield "calls (measured)" + "".join(f"{size:>9}" for size in sizes)
    for one in run["calls"]:
        times = "".join(f"{format_seconds(seconds):>9}" for seconds in one["seconds"])
        name = f"{one['kind']} {one['ranks']}"
        yield f"{name:<16}{times}"
