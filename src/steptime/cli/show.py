"""``show``: What does it look like, step by step?"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from steptime.cli.options import Flat, PrintOptions
from steptime.cli.pipelines import PipelineOptions, show_pipeline
from steptime.cli.printing import say, writing
from steptime.errors import UsageError

if TYPE_CHECKING:
    from steptime.api.pictures import Picture
    from steptime.report.collective.panel import Panel

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
    words = names.split(",")
    asked: dict[str, Any] = {
        "collective": collective,
        "ranks": ranks,
        "root": root,
        "hosts": hosts,
        "alpha": alpha,
        "bandwidth": bandwidth,
        "cluster": cluster,
    }
    if chart is not None:
        if html is not None or size is not None or blocks is not None:
            raise UsageError(
                "--chart is of all sizes, each in its own number of blocks: drop --html, --bytes "
                "and --blocks"
            )
        _chart(words, asked, chart, output)
        return 0
    return _show(words, {**asked, "blocks": blocks, "nbytes": size}, html, output)


def _show(
    words: Sequence[str], asked: Mapping[str, Any], html: Path | None, output: PrintOptions
) -> int:
    from steptime.api.pictures import show as drawn

    picture = drawn(*words, **asked)
    if html is not None:
        with writing(html):
            picture.save(html)
    _answer(picture, html, output)
    return 0 if picture.ok else 1


def _chart(
    words: Sequence[str], asked: Mapping[str, Any], path: Path, output: PrintOptions
) -> None:
    from steptime.api.charts import chart
    from steptime.report.crossover import print_chart, record
    from steptime.report.crossover_page import write_chart

    drawn = chart(*words, **asked)
    with writing(path):
        write_chart(path, drawn)
    if output.json:
        say(json.dumps({"verb": "show", "page": str(path), "chart": record(drawn)}))
        return
    say(f"{output.rendered(lambda console: print_chart(console, drawn))}\n\npage: {path}")


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


def _answer(picture: "Picture", html: Path | None, output: PrintOptions) -> None:
    from steptime.report.collective.rounds import costs
    from steptime.report.collective.schedule_timeline import told

    shown = picture.panels
    if output.json:
        say(json.dumps({"verb": "show", "algorithms": [_record(one) for one in shown]}))
        return
    if html:
        lines = [f"{one.title}: {costs(one)}" for one in shown]
        lines += [f"{one.title}: {told(one.timeline)}" for one in shown if one.timeline]
        lines += [f"{one.title} is wrong: {one.findings[0]}" for one in shown if one.findings]
        say("\n".join([*lines, f"page: {html}"]))
        return
    say(output.rendered(picture.print))


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
