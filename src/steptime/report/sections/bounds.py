"""What bounds a step: what one per cent of each link's and device's speed is worth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.report.section import Page, Section
from steptime.runs.figures import Bound
from steptime.runs.record import RunRecord

_FELT = 5e-3  # of a per cent of the step: what is below is nothing


@dataclass(frozen=True)
class Bounds:
    """What bounds one strategy's step, most of all first.

    ``sentence``: the bound in words. ``gains``: what one per cent more of each kind of link or
    device saves; ``losses``: what one per cent less of a single one costs.
    """

    strategy: str
    sentence: str
    gains: Sequence[tuple[str, str]]
    losses: Sequence[tuple[str, str]]


def bounds_of(run: RunRecord) -> list[Bounds]:
    """What bounds each strategy that was asked about."""
    asked = {name: entry.sensitivity for name, entry in run.strategies.items()}
    return [_bounds(name, answers) for name, answers in asked.items() if answers]


def _bounds(name: str, answers: Sequence[Bound]) -> Bounds:
    ranked = sorted(answers, key=lambda answer: -answer.elasticity)
    gains = [answer for answer in ranked if answer.faster]
    losses = [answer for answer in ranked if not answer.faster]
    return Bounds(
        strategy=name,
        sentence=_sentence(gains, losses),
        gains=[(_change(answer), _percent(answer)) for answer in gains],
        losses=[(_change(answer), _percent(answer)) for answer in losses],
    )


def print_bounds(console: Console, run: RunRecord) -> None:
    """Print what bounds each strategy: a sentence each and, of one alone, what was asked."""
    bounds = bounds_of(run)
    if not bounds:
        return
    console.print()
    console.print(Text("What bounds the step (simulated)"))
    for one in bounds:
        line = f"{one.strategy}: {one.sentence}"  # rich would part a number from its unit
        console.print(Text(fill(line, console.width, break_on_hyphens=False)))
    if len(bounds) > 1:
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    table.add_column("1 % of change", no_wrap=False)
    table.add_column("of the step", justify="right", no_wrap=True)
    for change, percent in bounds[0].gains:
        table.add_row(change, f"saves {percent}")
    for change, percent in bounds[0].losses:
        table.add_row(change, f"costs {percent}")
    console.print(table)


def _sentence(gains: Sequence[Bound], losses: Sequence[Bound]) -> str:
    """The bound: what is worth most as a whole, which kind of it, and which one."""
    wholes = [one for one in gains if one.what in ("all devices", "all links")]
    felt = [one for one in wholes if _felt(one)]
    if not felt:
        return "nothing that is made 1 % faster saves anything."
    first = felt[0]
    sentence = f"{_change(first)} saves {_percent(first)}"
    kind = next((one for one in gains if one not in wholes and one.kind == first.kind), None)
    if kind and _felt(kind):
        sentence += f" ({kind.what.removeprefix('all ')} {_percent(kind)})"
    if len(felt) > 1:
        sentence += ", " + ", ".join(f"{_noun(one)} {_percent(one)}" for one in felt[1:])
    hardest = next((one for one in losses if _felt(one)), None)
    if hardest:
        sentence += f"; {_change(hardest)} alone costs {_percent(hardest)}"
    return f"{sentence}."


def _felt(answer: Bound) -> bool:
    return answer.elasticity >= _FELT


def _percent(answer: Bound) -> str:
    return f"{answer.elasticity:.2f}\u00a0%" if _felt(answer) else "0\u00a0%"


def _change(answer: Bound) -> str:
    """What was done: ``1 % more bandwidth of all links``, ``1 % less latency of all links``."""
    less = answer.faster == (answer.kind == "latency")
    return f"1 % {'less' if less else 'more'} {_noun(answer)} of {answer.what}"


def _noun(answer: Bound) -> str:
    kind = answer.kind
    return f"{kind} speed" if kind in ("compute", "reduction") else kind


def _shown(page: Page) -> Mapping[str, Any] | None:
    found = bounds_of(page.record) if page.single else []
    return {"bounds": found} if found else None


SECTION = Section("bounds", 110, _shown)
