"""``topo``: What is this machine?"""

import os
from dataclasses import asdict
from pathlib import Path

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

_DEFAULT = asdict(RankOptions())


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
        return _measure(cluster_file, ranks, output)
    given = {"cluster-file": cluster_file, "out": output.out}
    given |= {name: value for name, value in asdict(ranks).items() if value != _DEFAULT[name]}
    for option, value in given.items():
        if value is not None:
            raise UsageError(f"--{option} belongs to --measure: add that, or leave it out")
    _show(file, svg, output, explain=explain)
    return 0


def _show(file: Path | None, svg: Path | None, output: OutputOptions, *, explain: bool) -> None:
    from steptime.api.machines import topo as shown

    host = shown(file, explain=explain)
    if svg:
        with writing(svg):
            host.svg(svg)
    if output.json:
        say_json(host.record)
        return
    say(output.rendered(host.print))
    if svg:
        say(f"\npicture: {svg}")


def _measure(cluster_file: Path | None, ranks: RankOptions, output: OutputOptions) -> int:
    from steptime.api.machines import check_measure

    def check(size: int) -> None:
        check_measure(ranks.backend, size, ranks_here(size))

    def work(place: Place) -> None:
        _measured(place, cluster_file or place.out / "cluster.toml", ranks, output)

    cores = len(os.sched_getaffinity(0))
    return on_ranks("topo", ranks, output, min(max(2, cores), 8), check, work)


def _measured(place: Place, path: Path, ranks: RankOptions, output: OutputOptions) -> None:
    from steptime.api.machines import measured
    from steptime.measure.place import make_transport
    from steptime.report.measured_lines import measured_lines

    transport = make_transport(ranks.backend)
    tell = teller(transport.rank, output, aside=output.json)
    for line in oversubscription(place):
        tell(line)
    found = measured(transport, provenance(place, ranks), place.world.local_size, tell)
    if found is not None:
        run = {**found.record, "cluster_file": str(path)}
        run_folder.write_record(place.out, run)
        with writing(path):
            found.save(path)
        if output.json:
            say_json(run)
        else:
            lines = measured_lines(run, columns_of_stdout() or 80)
            say("\n".join([*lines, f"cluster file: {path}"]))
    transport.barrier()  # an error here would end rank 0 before it has written
