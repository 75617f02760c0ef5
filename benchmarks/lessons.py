"""Every lesson run from its source: what it asks, runs and judges, and how much of that holds.

    python benchmarks/lessons.py

Each command is run, each exercise solved and judged. What times decide is counted apart, for a busy
machine may upset it.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from steptime.learn.lesson import Lesson
from steptime.learn.marking import marks, run_through
from steptime.learn.session import open_session
from steptime.learn.source import all_lessons


def row(lesson: Lesson, folder: Path) -> dict[str, str | int]:
    """A lesson's counts, and the seconds that its commands took together."""
    session = open_session(lesson, folder)
    begun = time.perf_counter()
    run_through(session)
    found = marks(session)
    timed = found["by_time"]
    return {
        "lesson": lesson.number,
        "questions": len(list(lesson.questions())),
        "commands": len(list(lesson.commands())),
        "exercises": len(list(lesson.exercises())),
        "checks hold": f"{found['passed']} of {found['checks']}",
        "by time": f"{timed['passed']} of {timed['checks']}",
        "s": round(time.perf_counter() - begun),
    }


def main() -> None:
    for lesson in all_lessons():
        with TemporaryDirectory() as folder:
            counts = row(lesson, Path(folder))
        widths = {name: max(len(name), 8) for name in counts}
        if lesson.number == 1:
            print(*(f"{name:>{width}}" for name, width in widths.items()))
        print(*(f"{value:>{widths[name]}}" for name, value in counts.items()), flush=True)


if __name__ == "__main__":
    main()
