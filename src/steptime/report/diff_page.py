"""The page of a diff: what changed, phase by phase, with intervals, and how sure that is."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steptime.report.diff_lines import ms_text, phase_rows, sentences, signed_ms, verdict
from steptime.report.svg_charts import Interval, interval_chart
from steptime.report.template import write_html

_Run = Mapping[str, Any]


def write_diff(path: Path, run: _Run) -> None:
    """Write the page of ``run``, the JSON of the verb, atomically: one file, no scripts."""
    write_html(path, "diff.html", context(run))


def context(run: _Run) -> dict[str, Any]:
    """What the template shows."""
    head = verdict(run).replace(" %", "\u00a0%")
    rows = [_step(run), *(_phase(title.strip(), phase) for title, phase in phase_rows(run))]
    depths = [0, *(1 + title.startswith("    ") for title, _ in phase_rows(run))]
    shares = ["100 %" if run["different"] else "–", *(_share(p) for _, p in phase_rows(run))]
    sides = [
        _sides(run["step_time_s"]["a"], run["step_time_s"]["b"]),
        *(_sides(phase["a_s"], phase["b_s"]) for _, phase in phase_rows(run)),
    ]
    return {
        "run": run,
        "headline": f"{head[0].upper()}{head[1:]}",
        "alarm": bool(run.get("failed")),
        "doubt": _doubt(run),
        "chart": interval_chart(rows, "B − A, ms"),
        "rows": list(zip(depths, rows, sides, shares, strict=True)),
        "signed": lambda ms: signed_ms(ms / 1e3),
        "told": [one for one in sentences(run) if not one.startswith("A difference is told")],
        "command": shlex.join(run["environment"]["command"]),
    }


def _doubt(run: _Run) -> str:
    told = [one for one in sentences(run) if one.startswith("A difference is told")]
    return told[0] if told else "Both are simulated: the times are exact, as far as the model is."


def _step(run: _Run) -> Interval:
    a, b = run["step_time_s"]["a"], run["step_time_s"]["b"]
    low, high = (a * (end - 1) for end in run["ci95"])
    return _interval("step", (low, b - a, high), sure=run["different"])


def _phase(title: str, phase: _Run) -> Interval:
    low, high = phase["ci95_s"]
    return _interval(title, (low, phase["difference_s"], high), sure=phase["different"])


def _interval(name: str, seconds: tuple[float, float, float], *, sure: bool) -> Interval:
    low, middle, high = seconds
    told = f"{name}: {signed_ms(middle)} ms, 95 % interval {signed_ms(low)} to {signed_ms(high)} ms"
    return Interval(name, 1e3 * low, 1e3 * middle, 1e3 * high, sure, told)


def _sides(a: float, b: float) -> tuple[str, str]:
    return ms_text(a), ms_text(b)


def _share(phase: _Run) -> str:
    share = phase["share"]
    return "–" if share is None else f"{100 * share:.0f} %".replace("-", "−")
