"""How accurate predictions are, in a terminal: a table by source and GPU, and what it says."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

from steptime.units import format_seconds

_WIDE = 80
_NAME, _FIGURE = 30, 7
_END = 24  # characters of a long name that stay, which have the GPU
_NONE = "–"
_FEW = 12  # rows that are told one by one
_MODEL, _SHAPE = 26, 26
_HEADS = ("rows", "MAPE", "bias", "line", "rank", "regret", "OOM")


def accuracy_lines(run: Mapping[str, Any], width: int = _WIDE) -> list[str]:
    """The lines about ``run``, the JSON of ``plan --validate``; of few rows each is told."""
    return list(_lines(run, width))


def _lines(run: Mapping[str, Any], width: int) -> Iterator[str]:
    summary, rows = run["summary"], run["rows"]
    predicted = [row for row in rows if row["expressible"]]
    timed = sum(one["rows"] for one in summary.values())
    yield from _filled(
        f"{len(predicted):,} of {len(rows):,} rows predicted, {timed:,} of them with a measured "
        f"time: {_whole(summary)}",
        width,
    )
    yield ""
    if predicted and len(rows) <= _FEW:
        yield from _each(predicted, width)
        yield ""
    yield f"{'source and GPU':<{_NAME}}" + "".join(f"{head:>{_FIGURE}}" for head in _HEADS)
    yield "─" * (_NAME + _FIGURE * len(_HEADS))
    for name, one in summary.items():
        yield from _source(name, one)
    yield ""
    yield from _filled(
        "In percent. MAPE: mean absolute error of the step's time, of rows not printed below "
        "10 % MFU; bias: mean signed error; line: MAPE of FLOP / (GPUs × c), its c fitted on "
        "these very rows; rank: median Spearman coefficient of a model on so many GPUs; regret: "
        "mean loss of throughput there by taking what is predicted the fastest; OOM: balanced "
        "accuracy of what fits.",
        width,
    )
    whys = Counter(row["why"] for row in rows if not row["expressible"])
    if whys:
        yield ""
        yield f"not predicted: {sum(whys.values()):,} row{'s' * (sum(whys.values()) != 1)}"
        for why, count in whys.most_common():
            yield from _filled(f"{count:>5}  {why}", width, after=7)


def _each(rows: Sequence[Mapping[str, Any]], width: int) -> Iterator[str]:
    """Each row that was predicted: what was measured and predicted of it."""
    yield f"{'model, GPUs':<{_MODEL}}{'layout':<{_SHAPE}}{'measured':>9}{'predicted':>11}{'%':>8}"
    yield "─" * (_MODEL + _SHAPE + 28)
    for row in rows:
        name = f"{row['model'][: _MODEL - 8]}, {row['gpus']:,}"
        measured, predicted = row["measured_s"], row["step_time_s"]
        off = _percent(predicted / measured - 1, signed=True) if measured else _NONE
        took = format_seconds(measured) if measured else _NONE
        yield (
            f"{name:<{_MODEL}}{_shape(row['layout']):<{_SHAPE}}{took:>9}"
            f"{format_seconds(predicted):>11}{off:>8}"
        )
    yield from _filled(
        "Layout: ranks along data, tensor, pipeline × chunks a stage, context and expert; "
        "micro-batches × rows; ZeRO's stage.",
        width,
    )


def _shape(layout: Mapping[str, int]) -> str:
    """A layout in short, as d8 t4 p4×5 64×1 z1."""
    axes = [
        f"{name[0]}{layout[name]}"
        + (f"×{layout['interleave']}" if name == "pipeline" and layout["interleave"] > 1 else "")
        for name in ("data", "tensor", "pipeline", "context", "expert")
        if layout[name] > 1
    ]
    return " ".join([*axes, f"{layout['micro_batches']}×{layout['rows']} z{layout['zero']}"])


def _whole(summary: Mapping[str, Any]) -> str:
    """The mean error over all rows that count, and that of the line beside it."""
    counted = [one for one in summary.values() if one["mape"] is not None]
    rows = sum(one["judged"] for one in counted)
    if not rows:
        return "none to judge by"
    mape, line = (
        sum(one["judged"] * one[name] for one in counted) / rows
        for name in ("mape", "baseline_mape")
    )
    return (
        f"off by {_percent(mape)} % on average over the {rows:,} not printed below 10 % MFU (a "
        f"line fitted to each source: {_percent(line)} %)"
    )


def _source(name: str, one: Mapping[str, Any]) -> Iterator[str]:
    """A source's line, its name above where it is long."""
    short = name if len(name) < _NAME else ""
    if not short:
        cut = f"{name[: _WIDE - _END - 1]}…{name[-_END:]}"
        yield name if len(name) <= _WIDE else cut
    cells = (
        f"{one['rows']:,}",
        _percent(one["mape"]),
        _percent(one["bias"], signed=True),
        _percent(one["baseline_mape"]),
        _NONE if one["spearman"] is None else f"{one['spearman']:.2f}",
        _percent(one["regret_mean"]),
        _percent(one["oom_balanced_accuracy"]),
    )
    yield f"{short:<{_NAME}}" + "".join(f"{cell:>{_FIGURE}}" for cell in cells)


def _percent(value: float | None, *, signed: bool = False) -> str:
    """A part as percent: 100 % and more without a digit behind the point."""
    if value is None:
        return _NONE
    digits = 0 if abs(value) >= 1 else 1
    return f"{100 * value:{'+' * signed}.{digits}f}"


def _filled(text: str, width: int, after: int = 0) -> list[str]:
    return fill(text, width, subsequent_indent=" " * after, break_on_hyphens=False).splitlines()
