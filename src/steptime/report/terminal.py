"""A run as a person in a terminal wants it first: one table, and what it says in a sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.units import format_bytes, format_seconds

_WIDE = 104  # columns from which the strategies' names and the measured bytes have room


def print_run(console: Console, run: Mapping[str, Any]) -> None:
    """Print what ``run``, the content of run.json, found."""
    strategies: Mapping[str, Any] = run["strategies"]
    console.print()
    console.print(_table(strategies, wide=console.width >= _WIDE))
    for sentence in _sentences(run):
        console.print(Text(sentence))


def _table(strategies: Mapping[str, Any], *, wide: bool) -> Table:
    slowest = max(entry["step_time_s"]["p90"] for entry in strategies.values())
    unit, scale = ("s", 1.0) if slowest >= 10 else ("ms", 1e-3)
    most = max(
        max(entry["bytes_sent_per_rank"] + entry["bytes_received_per_rank"])
        for entry in strategies.values()
    )
    size, quantum = next((name, value) for name, value in _SIZES if most >= value or value == 1)

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1 if wide else 0), pad_edge=False)
    table.add_column("strategy", no_wrap=wide, max_width=None if wide else 10, overflow="fold")
    for title in (f"step\n{unit}", f"p10–p90\n{unit}", f"compute\n{unit}", f"exposed\ncomm {unit}"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column(f"update\n{unit}", justify="right", no_wrap=True)
    table.add_column(f"sent a\nrank {size}", justify="right", no_wrap=True)
    table.add_column(f"most into\none {size}", justify="right", no_wrap=True)
    if wide:
        table.add_column(f"on the\nwire {size}", justify="right", no_wrap=True)
    table.add_column("tokens\n/s", justify="right", no_wrap=True)
    if len(strategies) > 1:
        table.add_column("against\nserver", justify="right", no_wrap=True)

    ranking = sorted(strategies.items(), key=lambda item: item[1]["step_time_s"]["median"])
    for place, (name, entry) in enumerate(ranking):
        times = entry["step_time_s"]
        cells = [
            name if wide else name.replace("_", "\n_"),
            _digits(times["median"] / scale),
            f"{_digits(times['p10'] / scale)}–{_digits(times['p90'] / scale)}",
            *(_digits(entry[f] / scale) for f in ("compute_s", "exposed_comm_s", "update_s")),
            _digits(max(entry["bytes_sent_per_rank"]) / quantum),
            _digits(max(entry["bytes_received_per_rank"]) / quantum),
        ]
        if wide:
            wire = entry["wire_bytes_received_per_rank"]
            cells.append(_digits(max(wire) / quantum) if wire else "–")
        cells.append(f"{entry['tokens_per_s']:,.0f}")
        if len(strategies) > 1:
            speed = entry["speed_against_server"]
            cells.append(f"{speed:.2f}×" if speed else "–")
        best = place == 0 and len(strategies) > 1
        table.add_row(*cells, style="bold green" if best else None)
    return table


_SIZES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))


def _sentences(run: Mapping[str, Any]) -> Sequence[str]:
    """What the table means, in the order in which a person wants to know."""
    strategies: Mapping[str, Any] = run["strategies"]
    sentences = []
    if len(strategies) > 1:
        sentences.append(_verdict(run))
    sentences += [s for s in (_wire_surplus(run), _agreement(strategies)) if s]
    sentences.append(
        f"Times are measured on {run['ranks']} ranks of {run['threads']} threads ({run['backend']}"
        f", {run['precision']}), medians over the timed steps; bytes are those of one step."
    )
    return sentences


def _verdict(run: Mapping[str, Any]) -> str:
    best = run["strategies"][run["winner"]]
    step = best["step_time_s"]["median"]
    exposed = best["exposed_comm_s"] / step
    return (
        f"{run['winner']} is the fastest here: {format_seconds(step)} a step, "
        f"{100 * exposed:.0f} % of it exposed communication."
    )


def _wire_surplus(run: Mapping[str, Any]) -> str | None:
    """The strategy that moves the most beyond what its collectives need, if any does."""
    surplus = {}
    for name, entry in run["strategies"].items():
        wire, needed = entry["wire_bytes_sent_per_rank"], entry["bytes_sent_per_rank"]
        if wire and sum(needed):
            surplus[name] = sum(wire) / sum(needed)
    name = max(surplus, key=lambda s: surplus[s], default="")
    if not name or surplus[name] < 1.2:
        return None
    entry = run["strategies"][name]
    return (
        f"On the wire {name} sends {surplus[name]:.1f} times what its collectives need: "
        f"{format_bytes(sum(entry['wire_bytes_sent_per_rank']))} a step over all ranks (measured) "
        f"for {format_bytes(sum(entry['bytes_sent_per_rank']))} (computed): that is how "
        f"{run['backend']} implements them."
    )


def _agreement(strategies: Mapping[str, Any]) -> str:
    curves = [entry["loss"] for entry in strategies.values()]
    first, last = curves[0][0], curves[0][-1]
    text = f"Loss {first:.3f} → {last:.3f} nats a token in {len(curves[0])} steps"
    if len(curves) > 1:
        apart = max(
            abs(a - b) / max(abs(b), 1e-12)
            for curve in curves
            for a, b in zip(curve, curves[0], strict=True)
        )
        text += f", the same under every strategy within {apart:.0e}"
    same = all(len(set(entry["parameter_hash"])) == 1 for entry in strategies.values())
    return f"{text}; parameters {'bit-identical' if same else 'NOT IDENTICAL'} on all ranks."


def _digits(value: float) -> str:
    """Three significant digits, as many as the spread of a measurement can bear."""
    decimals = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:,.{decimals}f}"
