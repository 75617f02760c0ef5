"""A run as a person in a terminal wants it first: one table, and what it says in a sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.units import format_bytes, format_seconds

_WIDE = 114  # columns from which the strategies' names and the measured bytes have room


def print_run(console: Console, run: Mapping[str, Any]) -> None:
    """Print what ``run``, the content of run.json, found."""
    strategies: Mapping[str, Any] = run["strategies"]
    console.print()
    console.print(_table(strategies, wide=console.width >= _WIDE))
    for sentence in _sentences(run):
        console.print(Text(sentence))


def _table(strategies: Mapping[str, Any], *, wide: bool) -> Table:
    """One row a strategy, the fastest first."""
    entries = list(strategies.values())
    unit, second = (
        ("s", 1.0) if max(e["step_time_s"]["p90"] for e in entries) >= 10 else ("ms", 1e-3)
    )
    most = max(max(e["bytes_sent_per_rank"] + e["bytes_received_per_rank"]) for e in entries)
    size, byte = next((name, count) for name, count in _SIZES if most >= count or count == 1)
    compared = len(strategies) > 1

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, int(wide)))
    table.add_column("strategy", no_wrap=True)
    for title in [
        f"step\n{unit}",
        f"p10–p90\n{unit}",
        f"compute\n{unit}",
        f"exposed\ncomm {unit}",
        f"update\n{unit}",
        f"sent a\nrank {size}",
        f"into\none {size}",
        *([f"on the\nwire {size}"] if wide else []),
        "tokens\n/s",
        *(["against\nserver"] if compared else []),
    ]:
        table.add_column(title, justify="right", no_wrap=True)

    ranking = sorted(strategies.items(), key=lambda item: item[1]["step_time_s"]["median"])
    for place, (name, entry) in enumerate(ranking):
        times, wire = entry["step_time_s"], entry["wire_bytes_received_per_rank"]
        speed = entry["speed_against_server"]
        table.add_row(
            name if wide else name.replace("overlapped_", "overlapped\n  _"),
            _digits(times["median"] / second),
            f"{_digits(times['p10'] / second)}–{_digits(times['p90'] / second)}",
            *(_digits(entry[f] / second) for f in ("compute_s", "exposed_comm_s", "update_s")),
            _digits(max(entry["bytes_sent_per_rank"]) / byte),
            _digits(max(entry["bytes_received_per_rank"]) / byte),
            *([_digits(max(wire) / byte) if wire else "–"] if wide else []),
            f"{entry['tokens_per_s']:,.0f}",
            *([f"{speed:.2f}×" if speed else "–"] if compared else []),
            style="bold green" if compared and place == 0 else None,
        )
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
        f"Times are medians of {_count(run['steps'] - run['warmup'], 'step')}, measured on "
        f"{_count(run['ranks'], 'rank')} of {_count(run['threads'], 'thread')} ({run['backend']}, "
        f"{run['precision']}); bytes are those of one step, computed from the calls."
    )
    return sentences


def _verdict(run: Mapping[str, Any]) -> str:
    """Who is fastest, and whether the spread of the measurement bears that out."""
    strategies, winner = run["strategies"], run["winner"]
    times = strategies[winner]["step_time_s"]
    exposed = strategies[winner]["exposed_comm_s"] / times["median"]
    rivals = [
        name
        for name, entry in strategies.items()
        if name != winner and entry["step_time_s"]["median"] <= times["p90"]
    ]
    doubt = f"; within its spread lie {', '.join(rivals)}" if rivals else ""
    return (
        f"{winner} is the fastest here: {format_seconds(times['median'])} a step, "
        f"{100 * exposed:.0f} % of it exposed communication{doubt}."
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
        text += ", the same under every strategy " + (
            f"within {apart:.0e}" if apart else "bit for bit"
        )
    same = all(len(set(entry["parameter_hash"])) == 1 for entry in strategies.values())
    return f"{text}; parameters {'bit-identical' if same else 'NOT IDENTICAL'} on all ranks."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _digits(value: float) -> str:
    """Three significant digits, as many as the spread of a measurement can bear."""
    decimals = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:,.{decimals}f}"
