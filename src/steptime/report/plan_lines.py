"""A plan in a terminal: the best layout in a sentence, the best ten, why, and the fronts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import fill

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.predict.account import TERMS
from steptime.predict.memory import CATEGORIES
from steptime.runs.plan import LayoutFigures, PlanRecord
from steptime.units import format_bytes, format_flops, format_seconds, seconds_in

NEAR_NOTHING = "no measured step is near this"
_ON_FRONT = 6
_SLOWEST = 4.0  # times the best: who asks for less memory asks for no less speed than that
_LEAST_ROOM = 18
_UNFIT = "bold red"
_BESIDES = 2
_GB = 1e9
_KWH, _DAYS_OF_NOTE = 3.6e6, 9.95
_SHORT = {"selective": "sel.", "none": "–", "full": "full"}
_SECOND, _MS = 1.0, 1e-3


@dataclass(frozen=True)
class _Column:
    """A heading and what stands below it."""

    title: str
    text: Callable[[LayoutFigures], str]

    def width(self, layouts: Sequence[LayoutFigures]) -> int:
        """Characters that it takes."""
        return max(map(len, [*self.title.split("\n"), *map(self.text, layouts)]))


def print_plan(console: Console, run: PlanRecord) -> None:
    """Print a plan."""
    console.print()
    _say(console, subject(run))
    if not run.fits:
        console.print(Text(fill(unfit_sentence(run), console.width), style=_UNFIT))
    else:
        _say(console, f"{headline(run)}.")
        _say(console, figures_sentence(run, run.best[0]))
    if run.training:
        _say(console, training_sentence(run))
    console.print()
    console.print(_table(run.best, _columns(run.best), console.width))
    if not run.fits:
        return
    for sentence in notes(run):
        _say(console, sentence)
    if len(leaner := near_best(run)) > 1:
        console.print()
        _say(console, "Time against memory: nothing is faster and keeps less than these.")
        console.print(_table(some_of(leaner), _columns(leaner), console.width))
    if len(run.front_gpus) > 1:
        console.print()
        _say(console, "Time against GPUs: the best layout of each number.")
        console.print(_gpus_table(run, console.width))
    console.print()
    console.print(Text(f"steptime simulate {run.model} --cluster {run.cluster}"))
    for line in _folded_options(run.best[0].options, console.width):
        console.print(Text(line))


def print_explained(console: Console, run: PlanRecord) -> None:
    """Print the full account of the first layout of a plan, and what its rank keeps."""
    one = run.best[0]
    console.print()
    _say(console, subject(run))
    if one.fits:
        _say(console, f"{upper_first(sentence_of(one))}.")
        _say(console, figures_sentence(run, one))
    else:
        console.print(Text(fill(unfit_sentence(run), console.width), style=_UNFIT))
        _say(console, f"{upper_first(sentence_of(one))}.")
    _say(console, f"All {one.gpus:,} devices together take {one.tokens_per_s:,.0f} tokens/s.")
    for sentence in filter(None, (training_sentence(run), cost_sentence(run))):
        _say(console, sentence)
    unit = _MS if one.step_time_s < _SECOND else _SECOND
    table = _plain_table()
    table.add_column("where the step goes", no_wrap=True)
    table.add_column("ms" if unit == _MS else "s", justify="right", no_wrap=True)
    table.add_column("%", justify="right", no_wrap=True)
    table.add_column("")
    for name, seconds in sorted(one.terms.items(), key=lambda term: -term[1]):
        share = f"{100 * seconds / one.step_time_s:.1f}"
        table.add_row(name, seconds_in(seconds, unit), share, TERMS.get(name, ""))
    table.add_row("step", seconds_in(one.step_time_s, unit), "100.0", "", style="bold")
    console.print()
    console.print(table)
    table = _plain_table()
    table.add_column("what a rank keeps", no_wrap=True)
    table.add_column("GB", justify="right", no_wrap=True)
    table.add_column("")
    for name, nbytes in sorted(one.memory.items(), key=lambda part: -part[1]):
        if nbytes:
            table.add_row(name, _gigabytes(nbytes), CATEGORIES.get(name, ""))
    table.add_row("in all", _gigabytes(one.memory_bytes), "", style="bold")
    table.add_row("device", _gigabytes(run.device_bytes), run.device)
    console.print()
    console.print(table)


def subject(run: PlanRecord) -> str:
    """What is planned, on what: all that is given."""
    return (
        f"{run.model} ({counted(run.parameters)} parameters) on {run.gpus:,} {run.device} of "
        f"{run.cluster}, under {run.software}: steps of {run.batch:,} rows of "
        f"{run.tokens_per_row:,} tokens. Every figure is computed."
    )


def headline(run: PlanRecord) -> str:
    """The best layout in one sentence."""
    best = run.best[0]
    return (
        f"The best of {run.searched:,} layouts, of which {run.fitting:,} fit: {sentence_of(best)}"
    )


def sentence_of(one: LayoutFigures) -> str:
    """A layout in words."""
    axes = [f"{name} {size:,}" for name, size in one.axes.items() if size > 1]
    parts = [" × ".join(axes) or "one rank"]
    if one.sequence_parallel:
        parts.append("sequence parallel")
    if one.schedule:
        chunks = f" with {one.interleave} chunks a stage" if one.interleave > 1 else ""
        parts.append(f"{one.schedule}{chunks}")
    several = "es" if one.micro_batches > 1 else ""
    rows = "row" if one.micro_batch == 1 else "rows"
    parts.append(f"{one.micro_batches:,} micro-batch{several} of {one.micro_batch} {rows}")
    if one.zero:
        parts.append(f"ZeRO {one.zero}")
    if one.recompute != "none":
        parts.append(f"{one.recompute} recompute")
    return ", ".join(parts)


def upper_first(text: str) -> str:
    """A text that begins a sentence."""
    return text[:1].upper() + text[1:]


def figures_sentence(run: PlanRecord, one: LayoutFigures) -> str:
    """Step, MFU with its peak, memory and expected error of a layout."""
    peak = format_flops(run.peak_flops[one.precision])
    rate = format_flops(1e12 * one.tflops_per_device)
    error = NEAR_NOTHING
    if one.expected_error:
        error = f"expected error {100 * one.expected_error:.0f} % {one.expected_from}".rstrip()
    simulated = ""
    if one.simulated_step_time_s:
        simulated = f" ({format_seconds(one.simulated_step_time_s)} simulated)"
    return (
        f"It takes {format_seconds(one.step_time_s)} a step{simulated}, {100 * one.mfu:.1f} % MFU "
        f"({rate} of {peak} a device in {one.precision}), "
        f"{one.tokens_per_s_per_device:,.0f} tokens/s a device, {_gigabytes(one.memory_bytes)} of "
        f"{_gigabytes(run.device_bytes)} GB; {error}."
    )


def unfit_sentence(run: PlanRecord) -> str:
    """That nothing fits, with the memory of the leanest, and what would."""
    best = run.best[0]
    return (
        f"DOES NOT FIT: of {run.searched:,} layouts the leanest keeps "
        f"{format_bytes(best.memory_bytes)} a rank and its device has "
        f"{format_bytes(run.device_bytes)} (computed). {run.remedy}"
    ).strip()


def training_sentence(run: PlanRecord) -> str:
    """What a whole training takes."""
    training = run.training
    if training is None:
        return ""
    days = f"{training.days:,.0f}" if training.days > _DAYS_OF_NOTE else f"{training.days:.2g}"
    parts = [f"{training.steps:,.0f} steps", f"{days} days"]
    parts += [f"a cost of {training.cost:,.0f}"] if training.cost is not None else []
    if training.joules is not None:
        parts.append(f"{training.joules / _KWH:,.0f} kWh by the devices' {run.watts:.0f} W")
    return f"A training on {counted(training.tokens)} tokens takes " + ", ".join(parts) + "."


def cost_sentence(run: PlanRecord) -> str:
    """What a step of the best layout costs."""
    best = run.best[0]
    if best.cost is None:
        return ""
    energy = f" and {best.joules / _KWH:.3g} kWh" if best.joules is not None else ""
    tokens = 1e6 * best.cost / run.tokens_per_step
    return (
        f"At {run.price:g} a device and hour a step costs {best.cost:.4g}{energy}, a million "
        f"tokens {tokens:.3g}."
    )


def counted(number: float) -> str:
    """A large number as people write it: ``405B``, ``15T``."""
    for unit, scale in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if number >= 0.9995 * scale:
            return f"{number / scale:.3g}{unit}"
    return f"{number:,.0f}"


def notes(run: PlanRecord) -> Iterator[str]:
    """The sentences below the table."""
    best = run.best[0]
    if run.why:
        yield run.why
    yield f"MFU is of {run.flops_per_token:.4g} FLOP a token: {run.formula}."
    if best.expected_error and run.fits:
        bar = best.step_time_s * (1 + best.expected_error)
        near = sum(one.step_time_s <= bar for one in run.best[1:])
        if near:
            yield f"{near} of the others are within the expected error of the best."
    if best.cost is not None:
        yield cost_sentence(run)
    if agreed := run.agreement:
        were = "was" if agreed.left_out == 1 else "were"
        left = f"; {agreed.left_out} {were} not simulated ({agreed.why})" if agreed.left_out else ""
        yield (
            f"Simulated, {agreed.layouts} of the best are {100 * agreed.median:.1f} % from the "
            f"estimate on the median, {100 * agreed.largest:.1f} % at most{left}. The order is "
            "that of the estimate."
        )


def near_best(run: PlanRecord) -> list[LayoutFigures]:
    """Those of the front of memory that somebody might take: not many times slower."""
    bar = _SLOWEST * run.best[0].step_time_s
    return [one for one in run.front if one.step_time_s <= bar]


def some_of(front: Sequence[LayoutFigures], most: int = _ON_FRONT) -> list[LayoutFigures]:
    """So many of a front at most, its ends among them, evenly by their places."""
    if len(front) <= most:
        return list(front)
    places = sorted({round(n * (len(front) - 1) / (most - 1)) for n in range(most)})
    return [front[at] for at in places]


def besides(one: LayoutFigures, width: int = 80) -> str:
    """The largest terms besides the products in percent of the step, as many as have room."""
    others = sorted(((s, n) for n, s in one.terms.items() if n != "products"), reverse=True)
    shares = [f"{name} {100 * seconds / one.step_time_s:.0f}" for seconds, name in others]
    able = (", ".join(shares[:most]) for most in (_BESIDES, 1))
    return next((text for text in able if len(text) <= width), "")


def _columns(layouts: Sequence[LayoutFigures]) -> list[_Column]:
    """The columns of layouts, without axes along which none has several ranks."""
    unit = _MS if min(one.step_time_s for one in layouts) < _SECOND else _SECOND
    axes = [
        _Column("data", lambda one: f"{one.axes['data']:,}"),
        _Column("ten-\nsor", lambda one: f"{one.axes['tensor']}{'+' * one.sequence_parallel}"),
        _Column("pipe-\nline", pipeline_text),
        _Column("con-\ntext", lambda one: f"{one.axes['context']}"),
        _Column("ex-\npert", lambda one: f"{one.axes['expert']}"),
    ]
    names = ("data", "tensor", "pipeline", "context", "expert")
    columns = [
        column
        for name, column in zip(names, axes, strict=True)
        if name == "data" or any(one.axes[name] > 1 for one in layouts)
    ]
    columns += [
        _Column("rows", lambda one: f"{one.micro_batch}"),
        _Column("ZeRO", lambda one: f"{one.zero}"),
        _Column("re-\ncomp.", lambda one: _SHORT[one.recompute]),
    ]
    if len({one.precision for one in layouts}) > 1:
        columns.append(_Column("dtype", lambda one: one.precision))
    columns.append(
        _Column(
            "step\nms" if unit == _MS else "step\ns", lambda one: seconds_in(one.step_time_s, unit)
        )
    )
    if any(one.expected_error for one in layouts):
        columns.append(_Column("±\n%", _error))
    if any(one.simulated_step_time_s for one in layouts):
        columns.append(_Column("sim.", lambda one: _simulated(one, unit)))
    return [
        *columns,
        _Column("MFU\n%", lambda one: f"{100 * one.mfu:.1f}"),
        _Column("mem.\nGB", lambda one: _gigabytes(one.memory_bytes)),
    ]


def pipeline_text(one: LayoutFigures) -> str:
    """Stages, and chunks of each or a schedule of its own: ``16×2``, ``8 zb-h1``."""
    stages = f"{one.axes['pipeline']}"
    if one.interleave > 1:
        return f"{stages}×{one.interleave}"
    return f"{stages} {one.schedule}" if one.schedule not in (None, "1f1b") else stages


def _error(one: LayoutFigures) -> str:
    return f"{100 * one.expected_error:.0f}" if one.expected_error else "–"


def _simulated(one: LayoutFigures, unit: float) -> str:
    return seconds_in(one.simulated_step_time_s, unit) if one.simulated_step_time_s else "–"


def _gpus_table(run: PlanRecord, width: int) -> Table:
    gpus = _Column("GPUs", lambda one: f"{one.gpus:,}")
    tokens = _Column("tokens/s\na device", lambda one: f"{one.tokens_per_s_per_device:,.0f}")
    return _table(run.front_gpus, [gpus, *_columns(run.front_gpus), tokens], width)


def _table(layouts: Sequence[LayoutFigures], columns: Sequence[_Column], width: int) -> Table:
    """A row for each layout; what else its step goes to has the room that is left."""
    table = _plain_table()
    for column in columns:
        table.add_column(column.title, justify="right", no_wrap=True)
    room = width - sum(column.width(layouts) + 1 for column in columns) - 1
    told = room >= _LEAST_ROOM
    if told:
        table.add_column("besides products,\n% of the step", no_wrap=True)
    for one in layouts:
        texts = [*(column.text(one) for column in columns), *[besides(one, room)] * told]
        table.add_row(*texts, style=None if one.fits else _UNFIT)
    return table


def _plain_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)


def _gigabytes(nbytes: float) -> str:
    return f"{nbytes / _GB:.1f}"


def _folded_options(options: str, width: int) -> Iterator[str]:
    """Options in lines of their own, each with its value in one piece."""
    words = options.split(" --")
    pieces = [words[0], *(f"--{word}" for word in words[1:])]
    lines, line = [], " "
    for piece in pieces:
        if len(line) + len(piece) + 3 > width:
            lines.append(line)
            line = " "
        line += f" {piece}"
    return iter([*lines, line])


def _say(console: Console, sentence: str) -> None:
    console.print(Text(fill(sentence, console.width, break_on_hyphens=False)))
