"""Rows of a benchmark as lines of text in the style of nccl-tests, of OSU, or narrow."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from steptime.dtypes import dtype_named
from steptime.measure.bench import Bench, Figures, Row, Sized, wrong_in_all
from steptime.measure.contest import Contest
from steptime.measure.fit import Fit
from steptime.units import Size, format_seconds

Style: TypeAlias = Literal["nccl", "narrow", "osu"]

_PLAIN = {"product": "prod"}
_TURNS = (
    "# algorithms take turns; one is the fastest where the 99 % intervals of the",
    "# others, out of place, lie above 1",
)


@dataclass(frozen=True)
class Layout:
    """The printed form of a benchmark: the lines above the rows, and the line of a row."""

    header: Sequence[str]
    line: Callable[[Row], str]

    def lines(self, size: Sized) -> list[str]:
        """The rows of a size, and who won where several took turns."""
        return [*map(self.line, size.rows), *verdict(size.contest)]


def layout(style: Style, bench: Bench, ranks: int, backend: str) -> Layout:
    """The layout of a style; its header names ``ranks`` and ``backend``."""
    make = {"nccl": _nccl, "narrow": _narrow, "osu": _osu}[style]
    return make(bench, ranks, backend)


def style_for(bench: Bench, columns: int | None) -> Style:
    """The style of nccl-tests if its lines fit into so many columns, None for no limit."""
    if columns is None or columns >= len(_nccl_header(bench)[0]):
        return "nccl"
    return "narrow"


def verdict(contest: Contest) -> list[str]:
    """Who is the fastest at a size or cannot be told from it, and how far behind the others are."""
    names, best = contest.names, contest.names[contest.best]
    if len(names) == 1:
        return []
    level = ", ".join(names[at] for at in contest.level)
    told = f"is level with {level}" if level else "is the fastest"
    ratios = sorted(
        (ratio, name)
        for at, name in enumerate(names)
        if name != best and (ratio := contest.ratio(at))
    )
    others = (
        f"{name} {_digits(ratio)} ({_digits(low)} to {_digits(high)})"
        for (ratio, (low, high)), name in ratios
    )
    text = f"{Size(contest.size_bytes)}: {best} {told}; over its time: {', '.join(others)}"
    return textwrap.wrap(text, 80, initial_indent="# ", subsequent_indent="#   ")


def footer(rows: Sequence[Row], fits: Mapping[str, Fit | None], neighbours: Fit | None) -> str:
    """The last lines: nccl-tests' totals, and the fits."""
    wrong = wrong_in_all(rows)
    halves = [half for row in rows for half in (row.out_of_place, row.in_place) if half]
    mean = sum(half.busbw_GBps for half in halves) / len(halves)
    checked = any(half.wrong is not None for half in halves)
    verdict = f"{wrong} {'FAILED' if wrong else 'OK'}" if checked else "not checked"
    lines = [f"# Out of bounds values : {verdict}", f"# Avg bus bandwidth    : {mean:g}"]
    lines += [f"# {name} fits {_line(fit)}" for name, fit in fits.items() if fit]
    if neighbours:
        lines.append(f"# to the right, all at once, fits {_line(neighbours)}")
    return "\n".join(lines)


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of run.json as one line of CSV: ``out_of_place_time_us`` and so on."""
    halves = asdict(Figures(0, 0, 0, None))
    columns: dict[str, Any] = {}
    for name, value in row.items():
        if name in ("out_of_place", "in_place"):
            columns |= {f"{name}_{field}": (value or {}).get(field) for field in halves}
        elif name == "ci99":
            columns |= dict(zip(("ci99_low", "ci99_high"), value or (None, None), strict=True))
        elif isinstance(value, Mapping):
            columns |= {f"{name}_{field}": entry for field, entry in value.items()}
        else:
            columns[name] = value
    return columns


def _line(fit: Fit) -> str:
    rate = f" + size / {fit.bandwidth / 1e9:.3g} GB/s" if fit.beta_s else " at any size"
    return f"{format_seconds(fit.alpha_s)}{rate}, off by {100 * fit.residual:.0f} %"


def _summary(bench: Bench, ranks: int, backend: str) -> list[str]:
    operation, effort = bench.operation, bench.effort
    reduction = f" {bench.reduction}" if operation.reduces else ""
    root = f" root {bench.root}" if operation.rooted else ""
    factor = operation.bus(ranks)
    return [
        f"# {operation.name}{reduction}{root} of {bench.dtype.name} on {ranks} ranks ({backend}), "
        "measured",
        f"# warmup iters: {effort.warmup} iters: {effort.iterations} validation: {bench.checks}",
        f"# busbw = {factor:.3g} x algbw: what a link carries, whatever the number of ranks",
        "# GB/s is 1e9",
        *(_TURNS if len(bench.algorithms) > 1 else ()),
    ]


def _name_width(bench: Bench) -> int:
    return max(9, *(len(a.name) if a else 0 for a in bench.algorithms))


def _nccl(bench: Bench, ranks: int, backend: str) -> Layout:
    return Layout([*_summary(bench, ranks, backend), "#", *_nccl_header(bench)], _nccl_line)


def _nccl_header(bench: Bench) -> list[str]:
    half, units = ("time", "algbw", "busbw", "#wrong"), ("(us)", "(GB/s)", "(GB/s)", "")
    width = _name_width(bench)

    def heads(first: str, count: str, words: Sequence[str], each: Sequence[str], end: str) -> str:
        columns = f"#{first:>11}  {count:>12}  {words[0]:>8}  {words[1]:>6}  {words[2]:>6}"
        one = f"  {each[0]:>7}  {each[1]:>6}  {each[2]:>6} {each[3]:>6}"
        return f"{columns}{one}{one}{end}"

    own = f"  {'p50':>8}  {'p99':>8}  {'cv':>5}  {'algorithm':<{width}}"
    own_units = f"  {'(us)':>8}  {'(us)':>8}  {'':>5}  {'':<{width}}"
    above = f"#{'':51}  {'out-of-place':^30}  {'in-place':^30}"
    named = heads("size", "count", ("type", "redop", "root"), half, own)
    return [
        f"{above:<{len(named)}}",
        named,
        heads("(B)", "(elements)", ("", "", ""), units, own_units),
    ]


def _nccl_line(row: Row) -> str:
    dtype = dtype_named(row.dtype).nccl_name
    redop = _PLAIN.get(row.redop, row.redop)
    return (
        f"{row.size_bytes:>12}  {row.count:>12}  {dtype:>8}  {redop:>6}  {row.root:>6}"
        f"{_nccl_half(row.out_of_place)}{_nccl_half(row.in_place)}"
        f"  {_fixed(row.p50_us, 8)}  {_fixed(row.p99_us, 8)}  {row.cv:>5.2f}  {row.algorithm}"
    )


def _nccl_half(half: Figures | None) -> str:
    if half is None:
        return f"  {'N/A':>7}  {'N/A':>6}  {'N/A':>6} {'N/A':>6}"
    wrong = "N/A" if half.wrong is None else half.wrong
    rates = f"{_fixed(half.algbw_GBps, 6)}  {_fixed(half.busbw_GBps, 6)}"
    return f"  {_fixed(half.time_us, 7)}  {rates} {wrong:>6}"


def _narrow(bench: Bench, ranks: int, backend: str) -> Layout:
    width = _name_width(bench)

    def columns(size: str, name: str, times: Sequence[str], wrong: str) -> str:
        time, algbw, busbw, p50, p99 = times
        return f"{size:>8} {name:<{width}}{time:>9}{algbw:>8}{busbw:>8}{p50:>9}{p99:>9}{wrong:>7}"

    def line(row: Row) -> str:
        half = row.out_of_place
        times = [half.time_us, half.algbw_GBps, half.busbw_GBps, row.p50_us, row.p99_us]
        wrong = [h.wrong for h in (half, row.in_place) if h and h.wrong is not None]
        size = str(Size(row.size_bytes))
        verdict = str(sum(wrong)) if wrong else "N/A"
        return " " + columns(size, row.algorithm, [f"{_digits(t)}" for t in times], verdict)

    names = "#" + columns("size", "algorithm", ("time", "algbw", "busbw", "p50", "p99"), "#wrong")
    units = "#" + columns("", "", ("us", "GB/s", "GB/s", "us", "us"), "")
    summary = _summary(bench, ranks, backend)
    return Layout([*summary, "#", names, units.rstrip()], line)


def _osu(bench: Bench, ranks: int, backend: str) -> Layout:
    title = f"# steptime {bench.operation.name} latency on {ranks} ranks ({backend}), as OSU 7.4"
    named = len(bench.algorithms) > 1

    def line(row: Row) -> str:
        latency = row.latency
        times = "".join(f"{t:>19.2f}" for t in (latency.avg_us, latency.min_us, latency.max_us))
        return f"{row.size_bytes:<10}{times}" + f"  {row.algorithm}" * named

    heads = "".join(f"{word + ' Latency(us)':>19}" for word in ("Avg", "Min", "Max"))
    return Layout([title, f"{'# Size':<10}{heads}"], line)


def _fixed(value: float, width: int) -> str:
    """A number in so many columns with two decimals, or as many as fit."""
    for decimals in (2, 1):
        text = f"{value:.{decimals}f}"
        if len(text) <= width:
            return f"{text:>{width}}"
    return f"{value:>{width}.0f}"


def _digits(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value >= 100 or value == 0:
        return f"{value:.0f}"
    return f"{value:.{2 if value >= 1 else 3}f}" if value < 10 else f"{value:.1f}"
