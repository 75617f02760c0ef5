"""From runs to their page: the headline, then every section that has something to show."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steptime.discovery import members
from steptime.report.section import Page, Section
from steptime.report.sentences import DOUBT_OF_SEVERAL, doubt, facts, headline, headline_of_several
from steptime.report.subject import Run
from steptime.report.template import write_html
from steptime.runs.memory import misfits
from steptime.runs.proxy_step import with_ranks
from steptime.runs.record import RunRecord
from steptime.timeline import Timeline


def write_report(path: Path, run: RunRecord, timeline: Timeline) -> None:
    """Write the page of a run to ``path``, atomically: one HTML file that needs no network.

    ``timeline``: the whole run.
    """
    whole = with_ranks(run, timeline)
    write_page(path, [Run(Path(run.run or path.parent).name, whole, timeline)])


def write_page(path: Path, runs: Sequence[Run]) -> None:
    """The same of one run or of several side by side, and of runs whose timeline is missing."""
    write_html(path, "report.html", context(runs))


def context(runs: Sequence[Run]) -> dict[str, Any]:
    """What the template shows of some runs: the head, and what each of its sections shows."""
    page = Page(runs)
    shown = _head(page) | {"sections": [], "figures": {}}
    every = members("steptime.report.sections", "SECTION", Section)
    for section in sorted(every, key=lambda one: one.order):
        own = section.shown(page)
        if own is not None:
            shown["sections"].append(section.name)
            shown["figures"] |= own.get("figures", {})
            shown |= {name: value for name, value in own.items() if name != "figures"}
    return shown


def _head(page: Page) -> dict[str, Any]:
    """The headline, and what several sections show."""
    run, single, entries = page.record, page.single, page.strategies.values()
    of_one = f"{run.work.model} on {run.place.world_size} ranks"
    timelines = [one.timeline for one in page.runs if one.timeline is not None]
    return {
        "run": run,
        "runs": [],
        "title": of_one if single else f"{len(page.runs)} runs",
        "when": run.environment.time if single else "",
        "folder": run.run or page.runs[0].name,
        "incomplete": [f"{one.name}: {one.missing}" for one in page.runs if one.missing],
        "headline": headline(run) if single else headline_of_several(page.subjects),
        "unfit": [name for name, entry in page.strategies.items() if entry.fits is False],
        "misfit": misfits(page.strategies),
        "doubt": doubt(run) if single else DOUBT_OF_SEVERAL,
        "facts": facts(run) if single else [],
        "several": len(entries) > 1,
        "names": list(page.strategies),
        "first_shown": page.subjects.index(page.first),
        "source": page.source,
        "timeline_source": ", ".join(dict.fromkeys(timeline.source for timeline in timelines)),
        "wire": any(entry.wire_bytes_received_per_rank for entry in entries),
    }
