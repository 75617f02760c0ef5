"""Going through a lesson without a reader: everything is run, and what holds is counted."""

from typing import Any

from steptime.learn.lesson import Command, Exercise, Part, Question
from steptime.learn.session import Session, write_file


def run_through(session: Session) -> None:
    """Run a lesson's commands and solutions in order, so that its findings are there."""
    for part in session.lesson.parts:
        _take(session, part)


def marks(session: Session) -> dict[str, Any]:
    """How many findings of a lesson there are and hold; those that time decides apart.

    A question counts as one that holds once a run has answered it.
    """
    found = session.progress.findings.values()
    counted = {
        timed: {
            "checks": sum(one.timed == timed for one in found),
            "passed": sum(one.timed == timed and one.ok is not False for one in found),
        }
        for timed in (False, True)
    }
    lesson = session.lesson
    head = {"number": lesson.number, "title": lesson.title}
    return {**head, **counted[False], "by_time": counted[True]}


def _take(session: Session, part: Part) -> None:
    if isinstance(part, Question):
        session.settle(part)
    elif isinstance(part, Command):
        session.perform(part, captured=True)
    elif isinstance(part, Exercise):
        write_file(session.folder / part.file, part.solution)
        session.judge(part, captured=True)
