"""A run as a person in a terminal wants it first: one table, and what it says in a sentence."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.replay.spread import how_cut, spread_lines
from steptime.report import about, standing
from steptime.report.about import played_by, rank_counts, sources
from steptime.report.sections.bounds import print_bounds
from steptime.report.sections.links import OVERBOOKED, overbooked
from steptime.report.sections.published import print_published
from steptime.report.sections.script import print_script
from steptime.report.sections.side_by_side import print_side_by_side, side_by_side
from steptime.report.sentences import bound, closed_form
from steptime.report.utilisation import share, used_lines
from steptime.runs.figures import StepFigures
from steptime.runs.memory import memory_lines, misfits
from steptime.runs.record import RunRecord
from steptime.runs.utilisation import Utilisation
from steptime.units import bytes_in, format_bytes, format_seconds, seconds_in

_ROUNDING = 1e-9  # relative: steps that differ by less are as fast
_UNFIT = "bold red"
_WIDEST = 154  # columns from which all rates of a device have room
_WIDE = 114  # columns from which the strategies' names and the measured bytes have room


def print_run(console: Console, run: RunRecord) -> None:
    """Print what ``run`` found."""
    strategies: Mapping[str, StepFigures] = run.strategies
    console.print()
    if sources(strategies.values()) == "simulated":
        title = f"Simulated on {run.place.cluster}, {run.place.cluster_title}"
        console.print(Text(title + about.standing_on(run.best.compute_speed)))
    if unfit := misfits(strategies):
        console.print(Text(f"DOES NOT FIT: {unfit}", style=_UNFIT))
    console.print(_table(run, console.width))
    for sentence in _sentences(run):  # rich would part a number from its unit
        console.print(Text(fill(sentence, console.width, break_on_hyphens=False)))
    print_script(console, run)
    for line in _plan_lines(run):
        console.print(Text(line))
    print_published(console, run)
    if both := side_by_side(run):
        print_side_by_side(console, both)
    print_bounds(console, run)


def _plan_lines(run: RunRecord) -> Iterator[str]:
    """How a model was cut, where ranks are that share it, and what they keep of it."""
    best = run.best
    cut = how_cut(run.work.model) if best.placement else ""
    if cut:
        yield f"{cut}."
    if len(best.placement) > 1:
        yield ""
        yield from spread_lines(best.placement)
    if best.model_memory:
        yield ""
        yield from memory_lines(best.model_memory)


@dataclass(frozen=True)
class _Column:
    """A heading and what stands below it; None where a strategy has nothing of the kind."""

    title: str
    text: Callable[[StepFigures], str | None]


def _table(run: RunRecord, width: int) -> Table:
    """One row a strategy, the shortest first; columns that none has a figure for are left out."""
    strategies: Mapping[str, StepFigures] = run.strategies
    entries = list(strategies.values())
    compared, wide = len(entries) > 1, width >= _WIDE
    columns = [c for c in _columns(entries, width) if any(c.text(e) for e in entries)]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, int(wide)))
    table.add_column("strategy", no_wrap=True)
    for column in columns:
        table.add_column(column.title, justify="right", no_wrap=True)
    ranking = sorted(strategies.items(), key=lambda item: item[1].standing)
    for name, entry in ranking:
        best = "bold green" if compared and name == run.winner else None
        table.add_row(
            name if wide else name.replace("overlapped_", "overlapped\n  _"),
            *(column.text(entry) or "–" for column in columns),
            style=_UNFIT if entry.fits is False else best,
        )
    return table


def _columns(entries: Sequence[StepFigures], width: int) -> list[_Column]:
    longest = max(entry.step_time_s.p90 for entry in entries)
    unit, second = ("s", 1.0) if longest >= 10 else ("ms", 1e-3)
    most = max(max(*e.bytes_sent_per_rank, *e.bytes_received_per_rank) for e in entries)
    size, byte = next((name, count) for name, count in _SIZES if most >= count or count == 1)

    def seconds(field: str) -> Callable[[StepFigures], str]:
        return lambda entry: seconds_in(getattr(entry, field), second)

    def spread(entry: StepFigures) -> str | None:
        times = entry.step_time_s
        if entry.source == "simulated":
            return None
        return f"{seconds_in(times.p10, second)}–{seconds_in(times.p90, second)}"

    def most_of(field: str) -> Callable[[StepFigures], str | None]:
        def text(entry: StepFigures) -> str | None:
            found = getattr(entry, field)
            return bytes_in(max(found), byte) if found else None

        return text

    def against(entry: StepFigures) -> str | None:
        speed = entry.speed_against_server
        return f"{speed:.2f}×" if speed else None

    def tokens(entry: StepFigures) -> str | None:
        return f"{entry.tokens_per_s:,.0f}" if entry.tokens_per_s else None

    def needs(entry: StepFigures) -> str | None:
        return format_bytes(entry.model_memory.total) if entry.model_memory else None

    unfit = [entry.model_memory for entry in entries if entry.model_memory and entry.fits is False]
    there = format_bytes(unfit[0].device_bytes or 0) if unfit else ""
    roomy = width >= _WIDE or not unfit  # the column before all others takes that of the last
    return [
        *([_Column(f"needs, of\n{there}", needs)] if unfit else []),
        _Column(f"step\n{unit}", lambda e: seconds_in(e.step_time_s.median, second)),
        _Column(f"p10–p90\n{unit}", spread),
        _Column(f"compute\n{unit}", seconds("compute_s")),
        _Column(f"exposed\ncomm {unit}", seconds("exposed_comm_s")),
        _Column(f"update\n{unit}", seconds("update_s")),
        _Column(f"sent a\nrank {size}", most_of("bytes_sent_per_rank")),
        _Column(f"into\none {size}", most_of("bytes_received_per_rank")),
        *(
            [_Column(f"on the\nwire {size}", most_of("wire_bytes_received_per_rank"))]
            if width >= _WIDE
            else []
        ),
        _Column("tokens\n/s", tokens),
        *_used_columns(wide=width >= _WIDEST),
        *([_Column("against\nserver", against)] if len(entries) > 1 and roomy else []),
    ]


def _used_columns(*, wide: bool) -> list[_Column]:
    """What a step uses of its devices; in a narrow table its MFU alone."""

    def of(title: str, text: Callable[[Utilisation], str | None]) -> _Column:
        return _Column(title, lambda entry: text(entry.utilisation) if entry.utilisation else None)

    mfu = of("MFU\n%", lambda used: share(used.mfu))
    if not wide:
        return [mfu]
    return [
        of("tokens/s\na device", lambda used: f"{used.tokens_per_s_per_device:,.0f}"),
        of("TFLOP/s\na device", lambda used: f"{used.tflops_per_device:.3g}"),
        mfu,
        of("HFU\n%", lambda used: share(used.hfu)),
    ]


_SIZES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))


def _sentences(run: RunRecord) -> Sequence[str]:
    """What the table means, in the order in which a person wants to know."""
    strategies: Mapping[str, StepFigures] = run.strategies
    found = [
        *([_verdict(run), *standing.how_sure(run)] if len(strategies) > 1 else []),
        bound(run),
        *_along_axes(run.best),
        *used_lines(
            run.best.utilisation,
            run.best.expected,
            run.best.source,
            run.fastest if len(strategies) > 1 else "",
        ),
        *standing.circumstances(run),
        _wire_surplus(run),
        _agreement(strategies),
        _provenance(run),
        OVERBOOKED if any(overbooked(e.link_use) for e in strategies.values()) else None,
    ]
    return [sentence for sentence in found if sentence]


def _along_axes(best: StepFigures) -> Iterator[str]:
    """A line an axis on what a measured step spends along several."""
    if best.source != "measured" or len(best.axes) == 1:
        return
    for of in best.axes:
        exposed, hidden = format_seconds(of.exposed_s), format_seconds(of.hidden_s)
        yield f"Along {of.axis} {exposed} exposed, {hidden} hidden."


def _provenance(run: RunRecord) -> str:
    """How the figures came about."""
    if sources(run.strategies.values()) == "simulated":
        fidelity = f"{run.timing.fidelity} fidelity"
        how = ", ".join(filter(None, (fidelity, closed_form(run.timing.library))))
        return (
            f"Every figure is simulated, at {how}: "
            f"{rank_counts(run)} on {run.place.cluster}, {run.timing.messages:,} messages a step"
            f"{' in all' * (len(run.strategies) > 1)}, in "
            f"{format_seconds(run.timing.wall_s or 0)} on this computer."
        )
    steps, place = (run.timing.steps or 0) - (run.timing.warmup or 0), run.place
    turns = len({block.turn for block in run.turns.blocks}) if run.turns else 0
    return (
        f"Times are medians of {_count(steps, 'step')}{f' in {turns} turns' * (turns > 1)}, "
        "measured on "
        f"{_count(place.world_size, 'rank')} of {_count(place.threads or 1, 'thread')} "
        f"({', '.join(filter(None, (place.backend, run.work.precision)))})"
        f"{', by the clock of its GPU' * bool(run.script and run.script.by_gpu)}"
        f"{played_by(run.environment)}; bytes are those of one step, computed from the calls."
    )


def _verdict(run: RunRecord) -> str:
    """Who is fastest, and how much of its step nothing hides."""
    exposed = run.best.exposed_comm_s / run.best.step_time_s.median
    return (
        f"{standing.opening(run)}, {100 * exposed:.0f} % of it exposed communication{_ties(run)}."
    )


def _ties(run: RunRecord) -> str:
    """Simulated steps that are exactly as long as the shortest."""
    least = run.best.step_time_s.median * (1 + _ROUNDING)
    tied = [
        name
        for name, entry in run.strategies.items()
        if name != run.fastest and entry.source == "simulated" and entry.step_time_s.median <= least
    ]
    return f"; as fast are {', '.join(tied)}" if tied else ""


def _wire_surplus(run: RunRecord) -> str | None:
    """The strategy that moves the most beyond what its collectives need, if any does."""
    surplus = {}
    for name, entry in run.strategies.items():
        wire, needed = entry.wire_bytes_sent_per_rank, entry.bytes_sent_per_rank
        if wire and sum(needed):
            surplus[name] = sum(wire) / sum(needed)
    name = max(surplus, key=lambda s: surplus[s], default="")
    if not name or surplus[name] < 1.2:
        return None
    entry = run.strategies[name]
    return (
        f"On the wire {name} sends {surplus[name]:.1f} times what its collectives need: "
        f"{format_bytes(sum(entry.wire_bytes_sent_per_rank or ()))} a step over all ranks "
        "(measured) "
        f"for {format_bytes(sum(entry.bytes_sent_per_rank))} (computed): that is how "
        f"{run.place.backend} implements them."
    )


def _agreement(strategies: Mapping[str, StepFigures]) -> str | None:
    """What the losses and the parameters of a live run say."""
    curves = [entry.loss for entry in strategies.values()]
    if not all(curves):
        return None
    first, last = curves[0][0], curves[0][-1]
    text = f"Loss {first:.3f} → {last:.3f} nats a token in {len(curves[0])} steps"
    if len(curves) > 1:
        apart = max(
            abs(a - b) / max(abs(b), 1e-12)
            for curve in curves
            for a, b in zip(curve, curves[0], strict=True)
        )
        text += ", the same under every strategy " + (
            f"within {apart:.0e}" if apart else "bit for bit"
        )
    same = all(len(set(entry.parameter_hash)) == 1 for entry in strategies.values())
    return f"{text}; parameters {'bit-identical' if same else 'NOT IDENTICAL'} on all ranks."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
