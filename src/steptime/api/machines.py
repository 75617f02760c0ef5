"""``steptime.topo`` and ``steptime.measure``: what this machine is, and what its ranks reach."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steptime import files
from steptime.api.cells import html_of, text_of
from steptime.api.running import Backend, answer_of_ranks, started_here
from steptime.errors import UsageError
from steptime.runs import run_folder

if TYPE_CHECKING:
    from rich.console import Console

    from steptime.arrays import Floats
    from steptime.cluster import CallTimes, Cluster
    from steptime.measure.bench import Bench
    from steptime.measure.core import DeviceRates
    from steptime.measure.links import Pair
    from steptime.measure.transport import BenchTransport
    from steptime.study.calibrate import Timed
    from steptime.topo.ring import Ring
    from steptime.topo.topology import Topology

_PAIR_BYTES = "4MiB"
_CALL_BYTES = "128MiB"  # twice the largest vector, for what a library copies


@dataclass(frozen=True, eq=False, repr=False)
class Host:
    """The GPUs, NICs and NUMA nodes of a host, and the path between every two of them.

    ``topology`` has its parts and the marks of their paths; ``rates`` are the bytes/s each way of a
    transfer alone, shape (parts, parts), computed; ``ring`` is the best over all GPUs, None for
    fewer than two. With ``explain`` what each mark means is printed too.
    """

    topology: "Topology"
    rates: "Floats"
    ring: "Ring | None"
    explain: bool = False

    @property
    def record(self) -> dict[str, Any]:
        """All of it, as ``--json`` has it."""
        from steptime.topo.record import record

        return record(self.topology, self.rates, self.ring)

    def svg(self, path: str | Path) -> Path:
        """Draw the tree of the host and the matrix to a file."""
        from steptime.report.topo_picture import picture
        from steptime.topo.explain import explained

        drawn = picture(self.topology, explained(self.topology, self.rates))
        files.write_atomic(Path(path), drawn.encode())
        return Path(path)

    def print(self, console: "Console") -> None:
        """Print the matrix that ``nvidia-smi topo -m`` shows, and the parts."""
        from steptime.report.topo_table import print_topology

        print_topology(console, self.topology, self.rates, self.ring, explain=self.explain)

    def __repr__(self) -> str:
        return text_of(self.print)

    def _repr_html_(self) -> str:
        return html_of(self.print)


@dataclass(frozen=True, eq=False, repr=False)
class MeasuredCluster:
    """What ranks measured of their device, their links and their library's calls: a cluster.

    ``device`` has its rates, ``pairs`` the latency and bandwidth between every two ranks, both
    ways; ``calls`` by kind the times of the library's calls, none where they were not timed.
    ``text`` is the cluster file, ``record`` what the run.json of `steptime topo --measure` holds.
    """

    device: "DeviceRates"
    pairs: "Sequence[Pair]"
    calls: "Mapping[str, tuple[CallTimes, ...]]"
    text: str
    record: Mapping[str, Any]

    @property
    def cluster(self) -> "Cluster":
        """The cluster, for ``st.simulate``: one host with a device for each rank."""
        from steptime.cluster import parse_cluster

        return parse_cluster(self.text, "measured")

    def save(self, path: str | Path) -> Path:
        """Write the cluster file, which ``st.cluster`` reads."""
        files.write_atomic(Path(path), self.text.encode())
        return Path(path)

    def print(self, console: "Console") -> None:
        """Print the figures of all pairs, the device's rates, and the times of the calls."""
        from steptime.report.measured_lines import measured_lines

        lines = [_title(self.record), *measured_lines(self.record, console.width)]
        console.print("\n".join(lines), soft_wrap=True)

    def __repr__(self) -> str:
        return text_of(self.print)

    def _repr_html_(self) -> str:
        return html_of(self.print)


def topo(file: str | Path | None = None, *, explain: bool = False) -> Host:
    """Show what this machine is: its GPUs, NICs and NUMA nodes, and what lies between them.

    ``file``: another machine, as ``nvidia-smi topo -m`` printed it there or NCCL wrote it in XML
    with NCCL_TOPO_DUMP_FILE. ``explain``: with what each mark means for training, the bandwidth to
    expect, and which pair of GPUs bounds a ring.

    Raises UsageError where the file cannot be read or is neither.

    >>> host = st.topo()
    >>> host.topology.marks[0][0]
    'X'
    >>> host.svg("host.svg")
    PosixPath('host.svg')
    """
    from steptime.topo.files import read_topology
    from steptime.topo.machine import this_machine
    from steptime.topo.rates import expected
    from steptime.topo.ring import best_ring

    topology = this_machine() if file is None else read_topology(Path(file))
    rates = expected(topology)
    return Host(topology, rates, best_ring(topology, rates), explain)


def measure(
    *,
    ranks: int = 2,
    backend: Backend = "gloo",
    threads: int = 1,
    calls: bool = True,
    timeout: float | str = "10min",
) -> MeasuredCluster:
    """Measure what live ranks of this machine reach, as a cluster to simulate steps on.

    Measured are latency and bandwidth between every two ranks, what a device computes, copies and
    adds up while all work, and on CPUs what the library's calls take, and what all pairs carry at
    once. Most of the time goes to these last two, which ``calls=False`` leaves out: steps are then
    simulated as if no pair disturbed another.

    Raises what ``st.run`` raises, and UsageError where this cannot be measured.

    >>> here = st.measure(ranks=2, calls=False)
    >>> here.cluster.devices
    2
    >>> here.save("here.toml")
    PosixPath('here.toml')
    >>> step = st.simulate("gpt2-nano", here.cluster, ranks=2, strategy="replicated", batch=4)
    >>> step.step_s > 0
    True
    """
    if backend == "none":
        raise UsageError("measure measures what communicates: choose gloo, nccl or steptime")
    check_measure(backend, ranks, ranks)
    work = partial(_measured, backend, threads, calls)
    return answer_of_ranks(work, ranks=ranks, backend=backend, threads=threads, timeout=timeout)


def check_measure(backend: str, ranks: int, ranks_here: int) -> None:
    """Raise UsageError where so many ranks cannot be measured.

    ``ranks_here``: how many of them this host must hold.
    """
    from steptime.measure.place import check_place

    check_place(_links(ranks, _CALL_BYTES), backend, ranks, ranks_here)


def measured(
    transport: "BenchTransport",
    where: Mapping[str, Any],
    ranks_here: int,
    tell: Callable[[str], None],
    *,
    calls: bool = True,
) -> MeasuredCluster | None:
    """Measure as one of the ranks; the answer on rank 0, None on the others.

    ``where``: backend, ranks, threads and so on, for the record. ``ranks_here``: how many ranks
    this host holds. ``tell`` is given a line before anything is measured. ``calls``: time the
    library's calls too.
    """
    from steptime.measure.place import hosts_of
    from steptime.measure.session import measure_links
    from steptime.replay.backends import transport_of
    from steptime.study.calibrate import measure_calls

    backend = where["backend"]
    tell(_title({**where, "library": transport.library}))
    device = _device(transport, backend, where["threads"], ranks_here)
    pairs = measure_links(transport, _links(transport.ranks, _PAIR_BYTES))
    one_host = len(set(hosts_of(transport))) == 1
    timed: Sequence[Timed] = ()
    cores = _cores(transport, where["threads"])
    # Only CPU ranks are timed as a proxy calls: they share cores and memory.
    if calls and one_host and backend != "nccl":
        timed = measure_calls(lambda: transport_of(backend), cores)
    if transport.rank:
        return None
    return _cluster(device, pairs, timed, cores, {**where, "library": transport.library})


def _cores(transport: "BenchTransport", threads: int) -> float:
    """How many ranks can compute at one time, on the cores that any of them may use."""
    import numpy as np

    own = np.zeros(os.sysconf("SC_NPROCESSORS_CONF"))
    own[list(os.sched_getaffinity(0))] = 1.0
    return float(transport.gather(own).max(axis=0).sum() / max(threads, 1))


def _measured(backend: str, threads: int, calls: bool) -> MeasuredCluster | None:
    """What a rank that ``measure`` started does."""
    from steptime.measure.place import make_transport

    transport = make_transport(backend)
    where = started_here(transport.ranks, backend, threads)
    return measured(transport, where, transport.ranks, lambda _: None, calls=calls)


def _links(ranks: int, largest: str) -> "Bench":
    """How pairs are measured: as bench measures them, by messages larger than a core's cache."""
    from steptime.collectives.selection import BUILTIN
    from steptime.measure.options import BenchOptions

    return BenchOptions(maxbytes=largest).bench("sendrecv", BUILTIN, ranks)


def _device(
    transport: "BenchTransport", backend: str, threads: int, ranks_here: int
) -> "DeviceRates":
    if backend == "mpi":
        from steptime.measure.core import measure_core

        return measure_core(transport, threads, ranks_here)
    from steptime.measure.device import measure_device

    return measure_device(transport, backend, ranks_here)


def _cluster(
    device: "DeviceRates",
    pairs: "Sequence[Pair]",
    timed: "Sequence[Timed]",
    cores: float,
    where: Mapping[str, Any],
) -> MeasuredCluster:
    """What was measured, with the algorithms that the library's calls are taken to use."""
    from steptime.cluster import parse_cluster
    from steptime.measure.session import pair_record
    from steptime.study.call_times import busiest, call_times, together
    from steptime.topo.cluster_file import calls_section, cluster_file

    record = {
        "verb": "topo",
        "source": "measured",
        **where,
        "device": {"source": "measured", **asdict(device)},
        "pairs": [pair_record(pair) for pair in pairs],
        "cluster_file": None,
        "environment": run_folder.environment(),
    }
    title, source = _described(record)
    at_once, port = (together(timed), busiest(pairs)) if timed else (None, None)
    shared = cores if timed else None
    text = cluster_file(title, source, asdict(device), pairs, at_once, port, shared)
    calls: Mapping[str, tuple[CallTimes, ...]] = {}
    if at_once and port:
        calls = call_times(timed, parse_cluster(text, "measured"))
        record |= {"together_GBps": at_once / 1e9, "port_GBps": port / 1e9}
        record["calls"] = _call_rows(calls)
        text += calls_section(calls)
    return MeasuredCluster(device, pairs, calls, text, record)


def _call_rows(calls: "Mapping[str, tuple[CallTimes, ...]]") -> list[dict[str, Any]]:
    """What run.json holds of the calls."""
    return [
        {"source": "measured", "kind": kind, **asdict(one)}
        for kind, of_kind in calls.items()
        for one in of_kind
    ]


def _title(record: Mapping[str, Any]) -> str:
    """Who measured."""
    return f"{record['ranks']} ranks on {record['library']}"


def _described(record: Mapping[str, Any]) -> tuple[str, str]:
    """The title and the source of the cluster file."""
    where = record["environment"]
    title = f"{where['host']}: {record['ranks']} ranks, {record['device']['name']} each"
    source = (
        f"measured by steptime topo --measure on {where['time']}: {record['library']}, "
        f"threads a rank: {record['threads']}, {where['cpu']} with {where['cores']} cores; one "
        "pair at a time, messages of 4 MiB; all pairs, calls and device rates while all ranks work"
    )
    return title, source
