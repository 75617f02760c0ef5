"""The page of ``bench`` and ``tune``: rates of the algorithms of a collective against the size."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steptime.report.palette import CURVES, DASHES, YELLOW
from steptime.report.svg_charts import Curve, Point, log_chart
from steptime.report.template import write_html
from steptime.units import Size, format_seconds

# Okabe & Ito, as in the other figures, with the page's ink in place of a pale yellow.
_COLORS = tuple("var(--ink)" if color == YELLOW else color for color in CURVES)
_Run = Mapping[str, Any]


@dataclass(frozen=True)
class _Time:
    """How long an algorithm takes at a size: rates in GB/s, the rest as its record has it."""

    size: int
    algorithm: str
    seconds: float
    algbw: float
    busbw: float
    ratio: str
    best: bool
    more: Sequence[str] = ()


def write_bench(path: Path, run: _Run) -> None:
    """Write the page of ``run``, the JSON of either verb, atomically: one file, no scripts."""
    write_html(path, "bench.html", context(run))


def context(run: _Run) -> dict[str, Any]:
    """What the template shows."""
    times = list(_tuned(run) if run["verb"] == "tune" else _measured(run))
    names = list(dict.fromkeys(one.algorithm for one in times))
    looks = {
        name: (_COLORS[at % len(_COLORS)], _dash(at // len(_COLORS) + at % len(_COLORS)))
        for at, name in enumerate(names)
    }
    rated = any(one.busbw for one in times)
    wrong = sum(_wrong(row) for row in run.get("rows", ()))
    return {
        "run": run,
        "headline": f"{wrong:,} elements of the results are WRONG" if wrong else _headline(run),
        "wrong": wrong,
        "doubt": _doubt(run),
        "keys": [(*looks[name], name) for name in names] if len(names) > 1 else [],
        "chart": _chart(times, looks) if rated else "",
        "factor": _factor(run),
        "times": [(one, _cells(one)) for one in times],
        "several": len(names) > 1,
        "fits": [(name, _fit(fit)) for name, fit in run.get("fits", {}).items()],
        "command": shlex.join(run["environment"]["command"]),
    }


def _measured(run: _Run) -> Iterator[_Time]:
    for row in run["rows"]:
        half = row["out_of_place"]
        wrong = [one["wrong"] for one in (half, row["in_place"]) if one]
        counted = [count for count in wrong if count is not None]
        yield _Time(
            row["size_bytes"],
            row["algorithm"],
            half["time_us"] / 1e6,
            half["algbw_GBps"],
            half["busbw_GBps"],
            _ratio(row.get("against_best"), row.get("ci99")),
            row["algorithm"] == _winners(run).get(row["size_bytes"]),
            (
                format_seconds(row["p50_us"] / 1e6),
                format_seconds(row["p99_us"] / 1e6),
                str(sum(counted)) if counted else "–",
            ),
        )


def _tuned(run: _Run) -> Iterator[_Time]:
    factor = _factor(run)
    for contest in run["contests"]:
        for name, microseconds in contest["time_us"].items():
            algbw = contest["size_bytes"] / microseconds / 1e3
            ratio = contest["ratios"].get(name, {})
            yield _Time(
                contest["size_bytes"],
                name,
                microseconds / 1e6,
                algbw,
                factor * algbw,
                _ratio(ratio.get("against_best"), ratio.get("ci99")),
                name == contest["selected"],
            )


def _factor(run: _Run) -> float:
    from steptime.measure.operation import operation_named

    return operation_named(run["op"]).bus(run["ranks"])


def _winners(run: _Run) -> dict[int, str | None]:
    return {one["size_bytes"]: one["winner"] for one in run.get("contests", ())}


def _headline(run: _Run) -> str:
    """Which is the fastest where, or how fast the only one is."""
    subject = f"{run['op']} on {run['ranks']} ranks"
    if run["verb"] == "tune":
        return f"{subject}: {_selected(run['selection'])}"
    contests = run.get("contests", ())
    if not contests:
        fastest = max(run["rows"], key=lambda row: row["out_of_place"]["busbw_GBps"])
        rate = fastest["out_of_place"]["busbw_GBps"]
        if not rate:
            return f"{subject}: {format_seconds(fastest['out_of_place']['time_us'] / 1e6)}"
        return f"{subject}: up to {rate:.3g} GB/s of busbw, at {Size(fastest['size_bytes'])}"
    wins = [one["winner"] for one in contests if one["winner"]]
    if not wins:
        return f"{subject}: no algorithm can be told from the others at any size"
    count = {name: wins.count(name) for name in dict.fromkeys(wins)}
    told = ", ".join(f"{name} is the fastest at {number}" for name, number in count.items())
    return f"{subject}: {told} of {len(contests)} sizes"


def _selected(selection: str) -> str:
    """A selection in words: ``recursive_doubling up to 8KiB, ring above``."""
    parts = [part.rpartition(":") for part in selection.split(";")]
    if len(parts) == 1:
        return f"{parts[0][0]} at every size"
    *lower, (last, _, _) = parts
    return ", ".join([*(f"{name} up to {ends.split('-')[1]}" for name, _, ends in lower), last]) + (
        " above"
    )


def _doubt(run: _Run) -> str:
    contests = run.get("contests", ())
    level = [one for one in contests if one["level_with"]]
    if level:
        keeps = " The selection keeps there what it takes beside it." if "selection" in run else ""
        return (
            f"At {len(level)} of {len(contests)} sizes several are level: the 99 % intervals of "
            f"their times reach that of the fastest. --see 5% takes as many turns as tell more."
            f"{keeps}"
        )
    if contests:
        return "At every size the 99 % intervals of all others lie above the time of the fastest."
    least, most = min(row["cv"] for row in run["rows"]), max(row["cv"] for row in run["rows"])
    return f"Measured once: single operations vary by {least:.0%} to {most:.0%} (cv)."


def _chart(times: Sequence[_Time], looks: Mapping[str, tuple[str, str]]) -> Any:
    curves = [
        Curve(
            name,
            color,
            dash,
            [
                Point(one.size, one.busbw, f"{name}, {Size(one.size)}: {one.busbw:.3g} GB/s")
                for one in times
                if one.algorithm == name and one.busbw
            ],
        )
        for name, (color, dash) in looks.items()
    ]
    return log_chart(curves, lambda size: str(Size(int(size))), "size", "busbw, GB/s")


def _cells(one: _Time) -> list[str]:
    return [
        str(Size(one.size)),
        one.algorithm,
        format_seconds(one.seconds),
        f"{one.algbw:.3g}",
        f"{one.busbw:.3g}",
        one.ratio,
        *one.more,
    ]


def _ratio(ratio: float | None, ends: Sequence[float] | None) -> str:
    if ratio is None or ends is None:
        return "–"
    return "1" if ratio == 1 else f"{ratio:.2f} ({ends[0]:.2f} to {ends[1]:.2f})"


def _fit(fit: Mapping[str, Any]) -> str:
    rate = fit["beta_GBps"]
    size = f" + size / {rate:.3g} GB/s" if rate else " at any size"
    alpha = format_seconds(fit["alpha_us"] / 1e6)
    return f"{alpha}{size}, off by {fit['residual']:.0%}"


def _wrong(row: Mapping[str, Any]) -> int:
    return sum((half or {}).get("wrong") or 0 for half in (row["out_of_place"], row["in_place"]))


def _dash(at: int) -> str:
    dash = DASHES[at % len(DASHES)]
    return "" if dash == "solid" else dash
