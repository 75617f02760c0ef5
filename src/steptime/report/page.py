"""From a run to its page: the sentences, the facts, and the file."""

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from steptime.report.about import byte_sources, place, rank_counts, sources, world_size
from steptime.report.beside import TITLES, beside_of
from steptime.report.bounds import bounds_of
from steptime.report.figures import (
    MAX_BARS,
    bytes_figure,
    curves,
    loss_figure,
    loss_spread,
    losses_agree,
    parts_figure,
)
from steptime.report.link_use import link_figures
from steptime.report.one_step import MAX_RANKS, step_figures
from steptime.report.palette import ORANGE, PARTS, SKY
from steptime.report.published import published_rows
from steptime.report.table import percent, share, strategy_table
from steptime.report.template import write_html
from steptime.timeline import Timeline
from steptime.units import format_bytes, format_seconds

_RANKS_NAMED = 16


def write_report(path: Path, run: Mapping[str, Any], timeline: Timeline) -> None:
    """Write the page of a run to ``path``, atomically: one HTML file that needs no network.

    ``run`` is what run.json holds, with one strategy or several, and ``timeline`` the whole run.
    """
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    # plotly.js is a script of its own package: autoescape would break it.
    plotly = Markup(get_plotlyjs())  # noqa: S704
    write_html(path, "report.html", context(run, timeline) | {"plotly": plotly})


def context(run: Mapping[str, Any], timeline: Timeline) -> dict[str, Any]:
    """What the template shows of a run."""
    strategies = run["strategies"]
    winner = _winner(run)
    steps = step_figures(timeline, strategies)
    links = link_figures(strategies, list(steps))
    live = any(entry["loss"] for entry in strategies.values())
    figures = {
        "parts": parts_figure(_parts_rows(strategies, timeline)),
        "steps": list(steps.values()),
        "links": links,
        "bytes": bytes_figure(strategies),
    }
    return {
        "run": run,
        "world_size": world_size(run),
        "headline": headline(run),
        "doubt": _doubt(run),
        "facts": _facts(run),
        "several": len(strategies) > 1,
        "source": sources(strategies.values()),
        "byte_source": byte_sources(strategies.values()),
        "timeline_source": timeline.source,
        "table": strategy_table(strategies),
        "published": published_rows(run),
        "beside": beside_of(run),
        "beside_titles": TITLES,
        "bounds": bounds_of(run),
        "summaries": {name: entry.get("summary", "") for name, entry in strategies.items()},
        "parts_key": [(part.color, part.label) for part in PARTS],
        "steps_key": [(part.color, part.phase.name.lower()) for part in PARTS],
        "curves": curves(strategies) if live else [],
        "loss_sentence": _loss_sentence(strategies) if live else "",
        "bytes_sentence": _bytes_sentence(strategies),
        "bytes_shown": MAX_BARS if world_size(run) > MAX_BARS else 0,
        "wire": any(e.get("wire_bytes_received_per_rank") for e in strategies.values()),
        "bytes_key": [(ORANGE, "rank 0"), (SKY, "the other ranks, in order")],
        "figures": figures | ({"loss": loss_figure(strategies)} if live else {}),
        "shown": list(steps),
        "representatives": _representatives(strategies, timeline),
        "links_shown": any(links),
        "first_shown": list(steps).index(winner) if winner in steps else 0,
        "environment": _environment(run["environment"]),
        "command": shlex.join(run["environment"]["command"]),
    }


def _representatives(strategies: Mapping[str, Any], timeline: Timeline) -> str:
    """Which ranks the timeline holds, where it does not hold all."""
    for name, entry in strategies.items():
        held = np.unique(timeline.steps_named(name)["rank"])
        if 0 < len(held) < len(entry.get("ranks", ())):
            ranks = ", ".join(f"{rank:,}" for rank in held[:_RANKS_NAMED].tolist())
            return (
                f"Of {len(entry['ranks']):,} ranks the timeline holds {len(held)}, one of each "
                f"kind of work: {ranks}{' …' * (len(held) > _RANKS_NAMED)}."
            )
    return ""


def headline(run: Mapping[str, Any]) -> str:
    """The sentence that says which strategy wins and what bounds its step."""
    name = _winner(run)
    entry = run["strategies"][name]
    time = format_seconds(entry["step_time_s"]["median"])
    if len(run["strategies"]) == 1:
        where = f" {place(run)}, simulated" if entry["source"] == "simulated" else ""
        opening = f"A step of {name} takes {time}{where}"
    else:
        speed = entry.get("speed_against_server")
        against = f", {speed:.2f}× server" if speed and name != "server" else ""
        simulated = "simulated " * (entry["source"] == "simulated")
        opening = f"{name} is the fastest {place(run)}: {time} a {simulated}step{against}"
    return f"{opening}; {_bound(entry)}"


def _winner(run: Mapping[str, Any]) -> str:
    strategies = run["strategies"]
    fastest = min(strategies, key=lambda name: strategies[name]["step_time_s"]["median"])
    return str(run.get("winner") or fastest)


def _bound(entry: Mapping[str, Any]) -> str:
    largest = max(PARTS, key=lambda part: entry[part.field])
    of_step = {part.field: percent(share(entry, part.field)) for part in PARTS}
    most, exposed = of_step[largest.field], of_step["exposed_comm_s"]
    if largest.field == "exposed_comm_s":
        return f"communication bounds it: {exposed} of the step is exposed communication"
    name = "what is none of compute, communication and update" * (largest.field == "other_s")
    return (
        f"{name or largest.label} bounds it ({most}), "
        f"and {exposed} of the step is exposed communication"
    )


def _doubt(run: Mapping[str, Any]) -> str:
    """Which strategies cannot be told from the winner, their steps spreading as they do."""
    winner = _winner(run)
    strategies = run["strategies"]
    slowest = strategies[winner]["step_time_s"]["p90"]
    near = [
        name
        for name, entry in strategies.items()
        if name != winner
        and entry["source"] == "measured"
        and entry["step_time_s"]["median"] <= slowest
    ]
    if not near:
        return ""
    return (
        f"The median step of {_listed(near)} lies within the spread (p10–p90) of {winner}’s steps: "
        "take more steps before trusting the order."
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _facts(run: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Label, value and small print of what was run, for the line below the headline."""
    config = run.get("model_config")
    shape = (
        "{layers} layers, {heads} heads, width {embd}, context {context}, "
        "vocabulary {vocabulary:,}, {parameters:,} parameters"
    )
    threads = run.get("threads")
    each = f"{threads} thread{'s' * (threads != 1)} each" if threads else ""
    facts = [
        ("model", run["model"], shape.format(**config) if config else ""),
        ("ranks", rank_counts(run).rpartition(" ")[0], each),
        ("cluster", run.get("cluster"), run.get("cluster_title", "")),
        ("fidelity", run.get("fidelity"), ""),
        ("backend", run.get("backend"), ""),
        ("precision", run.get("precision"), ""),
        ("batch", run.get("batch"), ""),
        ("data", run.get("data"), ""),
    ]
    return [(name, str(value), small) for name, value, small in facts if value]


def _parts_rows(
    strategies: Mapping[str, Any], timeline: Timeline
) -> list[tuple[str, str, Mapping[str, Any]]]:
    """A row a strategy; of one strategy alone its ranks too, so that a slow one stands out.

    Of its ranks those that the timeline holds: of very many they stand for all.
    """
    rows = [
        (name, format_seconds(entry["step_time_s"]["median"]), entry)
        for name, entry in strategies.items()
    ]
    if len(rows) > 1:
        return rows
    name, _, entry = rows[0]
    held = set(timeline.steps_named(name)["rank"].tolist())
    ranks = [rank for rank in entry.get("ranks", ()) if not held or rank["rank"] in held]
    return rows + [
        (f"rank {rank['rank']} on {rank['host']}", format_seconds(rank["step_time_s"]), rank)
        for rank in ranks[:MAX_RANKS]
    ]


def _loss_sentence(strategies: Mapping[str, Any]) -> str:
    steps = max(len(entry["loss"]) for entry in strategies.values())
    if len(strategies) == 1:
        return f"The training loss over {steps} steps."
    if losses_agree(strategies):
        return (
            "The curves lie on one another because every strategy trains the same model: "
            "where they do, the line is striped in all their colours."
        )
    spread = loss_spread(strategies)
    if math.isinf(spread):
        return "The loss of a strategy is not a finite number at every step."
    return f"The curves differ by up to {percent(spread)} of the loss at a step."


def _bytes_sentence(strategies: Mapping[str, Any]) -> str:
    busiest = {n: max(e["bytes_received_per_rank"]) for n, e in strategies.items()}
    most, least = max(busiest, key=busiest.__getitem__), min(busiest, key=busiest.__getitem__)
    received = strategies[most]["bytes_received_per_rank"]
    even = min(received) == max(received)
    rank = "every rank" if even else f"rank {received.index(busiest[most])}"
    sentence = f"{most} puts {format_bytes(busiest[most])} into {rank} in every step"
    if busiest[most] == busiest[least]:
        return f"{sentence}."
    return f"{sentence}; {least} no more than {format_bytes(busiest[least])} into any rank."


def _environment(environment: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Label and value of everything the figures depend on but the command, which stands apart."""
    flat: list[tuple[str, str]] = []
    for name, value in environment.items():
        if name == "command":
            continue
        entries = value.items() if isinstance(value, Mapping) else [(name, value)]
        flat += [(str(key).replace("_", " "), str(item)) for key, item in entries if item]
    return flat
