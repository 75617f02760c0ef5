"""``show``: What does it look like, step by step?"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from steptime.api.arguments import bytes_of, hosts_of
from steptime.cli.options import Flat, PrintOptions
from steptime.cli.pipelines import PipelineOptions, show_pipeline
from steptime.cli.printing import say, writing
from steptime.errors import UsageError
from steptime.units import parse_rate, parse_seconds

if TYPE_CHECKING:
    from rich.console import Console

    from steptime.arrays import Floats
    from steptime.cluster import Cluster
    from steptime.collectives.algorithm import Algorithm
    from steptime.collectives.schedule import Schedule
    from steptime.report.collective.panel import Link, Panel
    from steptime.report.crossover import Chart

_ALPHA, _BANDWIDTH = "5us", "10GB/s"


def show(
    names: Annotated[str, Parameter(name="NAMES|FILE.py|FILE.xml|pipeline")],
    /,
    *,
    output: Flat[PrintOptions] = PrintOptions(),
    collective: str | None = None,
    ranks: int = 8,
    root: int = 0,
    hosts: int | None = None,
    blocks: int | None = None,
    size: Annotated[str | None, Parameter(name="--bytes")] = None,
    alpha: str = _ALPHA,
    bandwidth: str = _BANDWIDTH,
    cluster: str | None = None,
    html: Path | None = None,
    chart: Path | None = None,
    pipeline: Flat[PipelineOptions] = PipelineOptions(),
) -> int:
    """What does it look like, step by step?

    Parameters
    ----------
    names
        Algorithms with commas between them (ring, all_reduce/ring,circulant), or a Python file
        or an MSCCL program of your own, which is proved too: what is wrong is marked where it
        happens. Of a name that several collectives have, the first is shown. Or the word
        pipeline: how the stages of a model take turns.
    collective
        Show the algorithms of this collective.
    ranks
        How many ranks take part.
    root
        The root of a broadcast, reduce, scatter or gather.
    hosts
        Hosts that share the ranks in order; default: two.
    blocks
        Into how many blocks a pipeline cuts the vector; default: 8, in a chart blocks of 64 KiB.
    size
        Size of the vector; default: 1 MiB for each rank.
    alpha
        What every message takes before its first byte arrives.
    bandwidth
        Of each rank's link, in each direction.
    cluster
        Simulate on this cluster, a preset or a file, too: when each message is sent and arrives.
    html
        Write a page to this file that plays the algorithms step by step, side by side, rather
        than print their rounds.
    chart
        Draw time against size to this file, for all algorithms of a collective or for those
        named, with the sizes where another one becomes the fastest; simulated with --cluster.

    """
    if names == "pipeline":
        _refuse_what_algorithms_take(locals())
        show_pipeline(pipeline, output)
        return 0
    if pipeline.given():
        raise UsageError(
            f"{names} has no {' and no '.join(pipeline.given())}: drop it, or say show pipeline"
        )
    from steptime.collectives.algorithm import DEFAULT_BLOCKS
    from steptime.collectives.lookup import find_algorithms, is_own
    from steptime.collectives.proof import prove
    from steptime.collectives.verification import check_right, safe_schedule
    from steptime.report.collective.panel import Link, panel

    link = Link(parse_seconds(alpha), parse_rate(bandwidth))
    if link.bandwidth <= 0:
        raise UsageError(f"--bandwidth is {bandwidth}: it must be above 0")
    if cluster is not None and hosts is not None:
        raise UsageError("--hosts is given, and --cluster says which ranks share a host: drop one")
    place = _named(cluster) if cluster is not None else None
    on = hosts_of(ranks, hosts) if place is None else _hosts_on(place, ranks)

    def made(algorithm: "Algorithm", parts: int) -> "Schedule":
        return safe_schedule(algorithm, ranks, root=root, hosts=on, blocks=parts)

    if chart is not None:
        if html is not None or size is not None or blocks is not None:
            raise UsageError(
                "--chart is of all sizes, each in its own number of blocks: drop --html, --bytes "
                "and --blocks"
            )
        if place is not None and (alpha, bandwidth) != (_ALPHA, _BANDWIDTH):
            raise UsageError(
                "--chart with --cluster is simulated on its links: drop --alpha and --bandwidth"
            )
        found = _all_named(names, collective, ranks)
        for algorithm in found if any(map(is_own, names.split(","))) else ():
            check_right(algorithm, ranks, root=root)
        _answer_chart(_drawn(found, made, ranks, link, place), chart, output)
        return 0
    shown = []
    for name in names.split(","):
        found = find_algorithms(name, collective)
        for algorithm in found if is_own(name) else found[:1]:
            schedule = made(algorithm, DEFAULT_BLOCKS if blocks is None else blocks)
            findings = prove(schedule).findings if is_own(name) else None
            shown.append(panel(algorithm, schedule, bytes_of(ranks, size), link, place, findings))
    if html is not None:
        from steptime.api.pictures import Picture

        with writing(html):
            Picture(tuple(shown)).save(html)
    _answer(shown, html, output)
    return 1 if any(one.findings for one in shown) else 0


def _refuse_what_algorithms_take(given: Mapping[str, object]) -> None:
    """Raise UsageError where an option of ``show`` is given that a pipeline has no use for."""
    strange = [
        "--bytes" if name == "size" else f"--{name}"
        for name, parameter in signature(show).parameters.items()
        if name not in ("names", "output", "pipeline") and given[name] != parameter.default
    ]
    if strange:
        raise UsageError(
            f"a pipeline has no {' and no '.join(strange)}: it takes --stages, --microbatches, "
            "--schedule, --interleave and --svg"
        )


def _named(cluster: str) -> "Cluster":
    from steptime.cluster.files import cluster_named

    return cluster_named(cluster)


def _hosts_on(cluster: "Cluster", ranks: int) -> tuple[int, ...]:
    return tuple(cluster.host_of[cluster.placed(ranks)].tolist())


def _all_named(names: str, collective: str | None, ranks: int) -> list["Algorithm"]:
    """The algorithms for a chart: those of a collective that can serve the ranks, or by name."""
    from steptime.collectives.lookup import find_algorithms, is_own

    found: dict[str, Algorithm] = {}
    for name in names.split(","):
        several = find_algorithms(name, collective)
        whole = is_own(name) or name == several[0].collective.name
        chosen = [a for a in several if a.serves(ranks)] if whole else several[:1]
        found |= {algorithm.name: algorithm for algorithm in chosen}
    if not found:
        raise UsageError(f"no algorithm of {names} can serve {ranks} ranks: name another number")
    return list(found.values())


def _drawn(
    found: Sequence["Algorithm"],
    made: Callable[["Algorithm", int], "Schedule"],
    ranks: int,
    link: "Link",
    cluster: "Cluster | None",
) -> "Chart":
    import numpy as np

    from steptime.collectives.price import times
    from steptime.report.crossover import chart

    if cluster is None:

        def computed(schedule: "Schedule", sizes: Sequence[int]) -> "Floats":
            return times(schedule, sizes, link.alpha, 1 / link.bandwidth)

        return chart(found, made, computed, ranks=ranks, source="computed", where=str(link))
    from steptime.simulate.carry import carry

    devices = cluster.placed(ranks)

    def simulated(schedule: "Schedule", sizes: Sequence[int]) -> "Floats":
        return np.array([carry(schedule, cluster, devices, size).seconds for size in sizes])

    return chart(found, made, simulated, ranks=ranks, source="simulated", where=cluster.title)


def _answer_chart(drawn: "Chart", path: Path, output: PrintOptions) -> None:
    from steptime.report.crossover import print_chart, record
    from steptime.report.crossover_page import write_chart

    with writing(path):
        write_chart(path, drawn)
    if output.json:
        say(json.dumps({"verb": "show", "page": str(path), "chart": record(drawn)}))
        return
    say(f"{output.rendered(lambda console: print_chart(console, drawn))}\n\npage: {path}")


def _answer(shown: Sequence["Panel"], html: Path | None, output: PrintOptions) -> None:
    from steptime.report.collective.rounds import costs, print_exhibit
    from steptime.report.collective.schedule_timeline import told

    if output.json:
        say(json.dumps({"verb": "show", "algorithms": [_record(one) for one in shown]}))
        return
    if html:
        lines = [f"{one.title}: {costs(one)}" for one in shown]
        lines += [f"{one.title}: {told(one.timeline)}" for one in shown if one.timeline]
        lines += [f"{one.title} is wrong: {one.findings[0]}" for one in shown if one.findings]
        say("\n".join([*lines, f"page: {html}"]))
        return

    def write(console: "Console") -> None:
        for one in shown:
            print_exhibit(console, one)

    say(output.rendered(write))


def _record(shown: "Panel") -> dict[str, Any]:
    from steptime.collectives.schedule import TRANSFER
    from steptime.report.collective.schedule_timeline import schedule_timeline_record

    schedule = shown.schedule
    names = TRANSFER.names or ()
    return {
        "collective": schedule.collective.name,
        "algorithm": schedule.algorithm,
        "ranks": schedule.ranks,
        "root": schedule.root,
        "hosts": schedule.hosts,
        "chunks": schedule.chunks,
        "slots": schedule.slots,
        "bytes": shown.nbytes,
        "source": "computed",
        "alpha_s": shown.link.alpha,
        "bandwidth_Bps": shown.link.bandwidth,
        "time_s": shown.seconds,
        "bytes_sent_per_rank": shown.cost.bytes_sent.tolist(),
        "bytes_reduced_per_rank": shown.cost.bytes_reduced.tolist(),
        "rounds": [
            [dict(zip(names, row, strict=True)) for row in transfers.tolist()]
            for transfers in schedule.rounds()
        ],
        **({"simulated": schedule_timeline_record(shown.timeline)} if shown.timeline else {}),
        **({} if shown.findings is None else {"findings": [asdict(f) for f in shown.findings]}),
    }
