"""The runs of a page of several: what differs between them, and what does not."""

from collections.abc import Mapping
from typing import Any

from steptime.report.section import Page, Section
from steptime.report.subject import Run
from steptime.runs.same_work import differing, facts_of

_PLAIN = (str, int, float)  # what a cell of a table can say


def _shown(page: Page) -> Mapping[str, Any] | None:
    if page.single:
        return None
    facts = [_facts(run) for run in page.runs]
    apart = differing(facts)
    same = [
        f"{_word(name)} {_text(value)}" for name, value in facts[0].items() if name not in apart
    ]
    return {
        "runs": [run.name for run in page.runs],
        "apart": [(_word(name), [_text(one.get(name)) for one in facts]) for name in apart],
        "same": same,
    }


def _facts(run: Run) -> dict[str, Any]:
    """What a run did, where and when: the fields that a cell can say."""
    record = run.record
    facts = facts_of(record, record.fastest)
    every = {**facts.work, **facts.told, "cluster": record.place.cluster}
    told = {name: value for name, value in every.items() if isinstance(value, _PLAIN)}
    several = ", ".join(record.strategies)
    when = {"when": record.environment.time} if record.environment.time else {}
    return told | {"strategy": several} | when


def _word(name: str) -> str:
    return name.replace("_", " ")


def _text(value: Any) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


SECTION = Section("runs", 10, _shown)
