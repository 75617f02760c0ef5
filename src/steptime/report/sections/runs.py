"""The runs of a page of several."""

from collections.abc import Mapping
from typing import Any

from steptime.report.section import Page, Section
from steptime.report.subject import Run


def _shown(page: Page) -> Mapping[str, Any] | None:
    return None if page.single else {"runs": [_line(one) for one in page.runs]}


def _line(run: Run) -> dict[str, str]:
    record = run.record
    return {
        "name": run.name,
        "what": f"{record.verb} {record.work.model}",
        "ranks": f"{record.place.world_size:,}",
        "where": record.place.cluster or record.place.backend or "",
        "precision": record.work.precision or "",
        "when": record.environment.time,
    }


SECTION = Section("runs", 10, _shown)
