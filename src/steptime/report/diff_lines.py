"""What a diff says to a person: the verdict, the phases, and how sure that is."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.units import format_rate, format_seconds, three_digits

_PHASES = {
    "compute": "compute",
    "exposed_comm": "exposed comm",
    "update": "update",
    "other": "other",
}


def print_diff(console: Console, diff: Mapping[str, Any]) -> None:
    """Print ``diff``, the JSON of the verb."""
    console.print()
    console.print(Text(verdict(diff), style="bold"))
    console.print(_table(diff))
    for line in sentences(diff):
        console.print(Text(line))


def verdict(diff: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    low, high = diff["ci95"]
    exact = diff["source"] == "simulated"
    ratio = diff["ratio"]
    if not diff["different"]:
        if exact:
            return "no difference: both steps take as long"
        return (
            f"no difference: B's step is {100 * abs(ratio - 1):.1f} % "
            f"{'longer' if ratio >= 1 else 'shorter'}, which chance may explain (95 % interval "
            f"{percent(low)} to {percent(high)})"
        )
    word = "slower" if ratio > 1 else "faster"
    change = f"B is {100 * abs(ratio - 1):.1f} % {word} than A"
    if exact:
        return f"{change}: {ratio:.4f} times its step"
    return f"{change} (95 % interval {percent(low)} to {percent(high)})"


def percent(ratio: float) -> str:
    """A ratio as what is added: ``+5.2 %``; where that says nothing any more, as times."""
    if ratio >= 100:
        return f"{ratio:.3g} times"
    return f"{100 * (ratio - 1):+.1f} %".replace("-", "−")


def _table(diff: Mapping[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("", no_wrap=True)
    for title in ("A\nms", "B\nms", "B − A\nms", "95 % interval\nms", "share of the\ndifference"):
        table.add_column(title, justify="right", no_wrap=True)
    a, b = diff["step_time_s"]["a"], diff["step_time_s"]["b"]
    span = " to ".join(signed_ms(a * (end - 1)) for end in diff["ci95"])
    whole = "100 %" if diff["different"] else "–"
    table.add_row("step", ms_text(a), ms_text(b), signed_ms(b - a), span, whole)
    for title, phase in phase_rows(diff):
        share = phase["share"]
        table.add_row(
            title,
            ms_text(phase["a_s"]),
            ms_text(phase["b_s"]),
            signed_ms(phase["difference_s"]),
            " to ".join(signed_ms(end) for end in phase["ci95_s"]),
            "–" if share is None else f"{100 * share:.0f} %".replace("-", "−"),
            style="bold" if phase["different"] else None,
        )
    return table


def phase_rows(diff: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The phases by their titles; below what is exposed its parts, as far as there is any."""
    for name, phase in diff["phases"].items():
        yield f"  {_PHASES[name]}", phase
        if name == "exposed_comm":
            for part, of in diff["exposed"].items():
                if of["a_s"] or of["b_s"]:
                    yield f"    {part}", of


def ms_text(seconds: float) -> str:
    """Seconds as milliseconds, without their unit: ``34.1``, ``725.8``, ``0.028``.

    No cell has a unit of its own, and none more than seven digits: the interval of two or three
    blocks of a restless machine may end at hours, and the table keeps to 80 columns.
    """
    ms = 1e3 * seconds
    if 0 < abs(ms) < 0.0995:
        return f"{ms:.3f}"
    if abs(ms) >= 999_999.5:
        return f"{ms:.1e}"
    return f"{ms:,.1f}" if 99.95 <= ms < 999.5 else three_digits(ms)


def signed_ms(seconds: float) -> str:
    """The same with a sign."""
    return f"{'−' if seconds < 0 else '+'}{ms_text(abs(seconds))}"


def sentences(diff: Mapping[str, Any]) -> Iterator[str]:
    """What stands below the table: the sides, the method, and which difference would be seen."""
    apart = [title.strip() for title, phase in phase_rows(diff) if phase["different"]]
    if apart and diff["source"] != "simulated":
        yield f"Phases that differ: {', '.join(apart)}."
    for link in diff.get("slowed_links", ()):
        yield _slowed(link)
    for side in "ab":
        yield f"{side.upper()}: {_side(diff[side])}"
    ranks = f"{diff['ranks']} rank{'s' * (diff['ranks'] != 1)}"
    yield f"{diff['model']}, {ranks}, {diff['precision'] or 'as given'}, {diff['source']}"
    yield f"How: {diff['method']}."
    for one in diff["differs"]:
        yield f"They differ in {one['what']}: A {one['a']}, B {one['b']}."
    if not diff["phases"]:
        yield "The traces keep too few steps to tell the phases."
    if diff["source"] != "simulated":
        decision = diff["ci_of_different"]
        ends = " to ".join(percent(end) for end in decision["ci"])
        yield (
            f"A difference is told where the {100 * decision['confidence']:g} % interval, {ends}, "
            f"leaves out 0; one of {100 * diff['least_seen']:.1f} % would be told nearly always."
        )
    if diff.get("fail_over") is not None:
        limit, failed = 100 * diff["fail_over"], diff["failed"]
        yield f"--fail-over {limit:g}%: B {'is' if failed else 'is not shown'} slower by more."


def _slowed(link: Mapping[str, Any]) -> str:
    hosts, of = link["hosts"], link["slower_in"].upper()
    what = f"link of {hosts[0]}" if len(hosts) == 1 else f"link between {' and '.join(hosts)}"
    rates = [format_rate(link[name]) for name in ("slow", "fast")]
    return (
        f"The {what} is {link['factor']:.1f} times slower in {of}: a connection that crosses it "
        f"carries {rates[0]} while it sends, and {rates[1]} in {'AB'[of == 'A']}."
    )


def _side(runs: list[Mapping[str, Any]]) -> str:
    steps = sum(run["steps"] for run in runs)
    medians = [run["step_time_s"] for run in runs]
    ends = [format_seconds(end) for end in (min(medians), max(medians))]
    many = f"{len(runs)} runs from {runs[0]['run']} to {runs[-1]['run']}"
    where = runs[0]["run"] if len(runs) == 1 else many
    of_median = ends[0] if len(runs) == 1 else " to ".join(ends)
    revisions = sorted({str(run["git_revision"]) for run in runs})
    return f"{where}: median {of_median}, {steps} steps, revision {', '.join(revisions)}"
