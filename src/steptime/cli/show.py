"""``show``: What does it look like, step by step?"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from steptime.cli.options import Flat, PrintOptions
from steptime.cli.pipelines import PipelineOptions, show_pipeline
from steptime.cli.printing import say, say_json, writing
from steptime.errors import UsageError

if TYPE_CHECKING:
    from steptime.api.pictures import Picture
    from steptime.report.collective.panel import Panel


@dataclass(frozen=True, kw_only=True)
class DrawOptions:
    """What is drawn of algorithms, on which ranks, and where to."""

    collective: str | None = None
    """Show the algorithms of this collective."""

    ranks: int = 8
    """How many ranks take part."""

    root: int = 0
    """The root of a broadcast, reduce, scatter or gather."""

    hosts: int | None = None
    """Hosts that share the ranks in order; default: two."""

    blocks: int | None = None
    """Into how many blocks a pipeline cuts the vector; default: 8, in a chart blocks of 64 KiB."""

    size: Annotated[str | None, Parameter(name="--bytes")] = None
    """Size of the vector; default: 1 MiB for each rank."""

    alpha: str = "5us"
    """What every message takes before its first byte arrives."""

    bandwidth: str = "10GB/s"
    """Of each rank's link, in each direction."""

    cluster: str | None = None
    """Simulate on this cluster, a preset or a file, too: when each message is sent and arrives."""

    html: Path | None = None
    """Write a page to this file that plays the algorithms step by step, side by side, rather than
    print their rounds; of a pipeline, one that draws its step and its bubble."""

    chart: Path | None = None
    """Draw time against size to this file, for all algorithms of a collective or for those named,
    with the sizes where another one becomes the fastest; simulated with --cluster."""

    def given(self) -> list[str]:
        """The options that were given, as they are written."""
        names = [one.name for one in fields(self) if getattr(self, one.name) != one.default]
        return ["--bytes" if name == "size" else f"--{name}" for name in names]

    def scene(self) -> dict[str, Any]:
        """What a picture and a chart are both asked for."""
        shared = ("collective", "ranks", "root", "hosts", "alpha", "bandwidth", "cluster")
        return {name: getattr(self, name) for name in shared}


def show(
    names: Annotated[str, Parameter(name="NAMES|FILE.py|FILE.xml|pipeline")],
    /,
    *,
    output: Flat[PrintOptions] = PrintOptions(),
    draw: Flat[DrawOptions] = DrawOptions(),
    pipeline: Flat[PipelineOptions] = PipelineOptions(),
) -> int:
    """What does it look like, step by step?

    Parameters
    ----------
    names
        Algorithms with commas between them (ring, all_reduce/ring,circulant), or a Python file
        of your own, which is run, or an MSCCL program; these are proved too: what is wrong is
        marked where it happens. Of a name that several collectives have, the first is shown. Or
        the word pipeline: how the stages of a model take turns.

    """
    if names == "pipeline":
        if given := [name for name in draw.given() if name != "--html"]:
            raise UsageError(
                f"a pipeline has no {' and no '.join(given)}: it takes --stages, "
                "--microbatches, --schedule, --interleave, --svg and --html"
            )
        show_pipeline(pipeline, draw.html, output)
        return 0
    if pipeline.given():
        raise UsageError(
            f"{names} has no {' and no '.join(pipeline.given())}: drop it, or say show pipeline"
        )
    if draw.chart is None:
        return _show(names.split(","), draw, output)
    if draw.html is not None or draw.size is not None or draw.blocks is not None:
        raise UsageError(
            "--chart is of all sizes, each in its own number of blocks: drop --html, --bytes "
            "and --blocks"
        )
    _chart(names.split(","), draw, draw.chart, output)
    return 0


def _show(words: Sequence[str], draw: DrawOptions, output: PrintOptions) -> int:
    from steptime.api.pictures import show as drawn

    picture = drawn(*words, **draw.scene(), blocks=draw.blocks, nbytes=draw.size)
    if draw.html is not None:
        with writing(draw.html):
            picture.save(draw.html)
    _answer(picture, draw.html, output)
    return 0 if picture.ok else 1


def _chart(words: Sequence[str], draw: DrawOptions, path: Path, output: PrintOptions) -> None:
    from steptime.api.charts import chart
    from steptime.report.crossover import print_chart, record
    from steptime.report.crossover_page import write_chart

    drawn = chart(*words, **draw.scene())
    with writing(path):
        write_chart(path, drawn)
    if output.json:
        say_json({"verb": "show", "page": str(path), "chart": record(drawn)})
        return
    say(f"{output.rendered(lambda console: print_chart(console, drawn))}\n\npage: {path}")


def _answer(picture: "Picture", html: Path | None, output: PrintOptions) -> None:
    from steptime.report.collective.rounds import costs
    from steptime.report.collective.schedule_timeline import told

    shown = picture.panels
    if output.json:
        say_json({"verb": "show", "algorithms": [_record(one) for one in shown]})
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
