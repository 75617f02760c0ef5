"""``learn``: How does distributed training work? Ten lessons that run here."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime import files
from steptime.cli.options import Flat, PrintOptions
from steptime.cli.printing import say, say_json, writing
from steptime.errors import UsageError

if TYPE_CHECKING:
    from steptime.learn.lesson import Lesson


def learn(
    number: Annotated[int | None, Parameter(name="NUMBER")] = None,
    /,
    *,
    printed: Flat[PrintOptions] = PrintOptions(),
    answers: bool = False,
    notebook: Path | None = None,
    again: bool = False,
    out: Path = Path("learn"),
) -> None:
    """How does distributed training work? Ten lessons that run here.

    Each asks before a result is seen, runs the command for real, and judges the answer by it.

    Parameters
    ----------
    number
        The lesson; default: list them, and how far you are in each.
    answers
        Ask nothing: run the lesson, or all of them, and tell answers and solutions.
    notebook
        Write the lesson as a notebook to this file instead; with --answers its exercises are
        solved.
    again
        Begin the lesson anew; the files that you wrote in it are removed.
    out
        Folder of your work and your progress.

    """
    from steptime.learn.source import all_lessons, find_lesson

    chosen = all_lessons() if number is None else (find_lesson(number),)
    if again and number is None:
        raise UsageError("--again begins one lesson anew: name its number, as in learn 2 --again")
    if notebook is not None:
        _notebook(chosen, notebook, printed, answers=answers)
    elif answers:
        _answered(chosen, out / "answers", printed)
    elif number is None:
        _list(chosen, out, printed)
    elif printed.json:
        raise UsageError("--json tells what a lesson's checks gave: give --answers too")
    else:
        _teach(chosen[0], out, printed, again=again)


def _list(lessons: "tuple[Lesson, ...]", out: Path, printed: PrintOptions) -> None:
    from steptime.learn.session import progress_in
    from steptime.learn.terminal import print_lessons

    found = [(lesson, progress_in(out / f"{lesson.number:02}")) for lesson in lessons]
    if printed.json:
        listed = [
            {"number": one.number, "title": one.title, "question": one.question, "done": far.done}
            for one, far in found
        ]
        say_json({"verb": "learn", "lessons": listed})
        return
    say(printed.rendered(lambda console: print_lessons(console, found)))
    say(f"\nsteptime learn {lessons[0].number} begins the first.")


def _teach(lesson: "Lesson", out: Path, printed: PrintOptions, *, again: bool) -> None:
    from steptime.learn.session import open_session
    from steptime.learn.terminal import Stopped, Teacher

    session = open_session(lesson, out, again=again)
    if session.progress.done >= len(lesson.parts):
        say(f"You have done lesson {lesson.number}: --again begins it anew.")
        return
    try:
        Teacher(printed.console(), session, asks=True).teach()
    except (Stopped, KeyboardInterrupt):
        say(f"\nStopped: steptime learn {lesson.number} goes on from here.")
        return
    say(f"That was lesson {lesson.number}. steptime learn lists all of them.")


def _answered(lessons: "tuple[Lesson, ...]", out: Path, printed: PrintOptions) -> None:
    from steptime.learn.marking import marks, run_through
    from steptime.learn.session import open_session
    from steptime.learn.terminal import Teacher

    told = []
    for lesson in lessons:
        session = open_session(lesson, out, again=True)
        if printed.json:
            run_through(session)
        else:
            Teacher(printed.console(), session, asks=False).teach()
        told.append(marks(session))
    if printed.json:
        say_json({"verb": "learn", "lessons": told})


def _notebook(
    lessons: "tuple[Lesson, ...]", path: Path, printed: PrintOptions, *, answers: bool
) -> None:
    from steptime.learn.notebook import notebook

    if len(lessons) != 1:
        raise UsageError("a notebook holds one lesson: name its number, as in learn 2 --notebook")
    with writing(path):
        files.write_json(path, notebook(lessons[0], answers=answers))
    if printed.json:
        say_json({"verb": "learn", "notebook": str(path)})
    else:
        say(f"notebook: {path}")
