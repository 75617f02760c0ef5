"""Make docs/lessons of the lessons' sources: their text, what their commands print, the answers.

``python docs/make_lessons.py [NUMBER …]`` runs every command and writes the pages; some figures are
measured, so each run makes others. tests/learn/test_lesson_pages.py holds the rest to the sources.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from steptime.learn.lesson import Command, Exercise, File, Lesson, Part, Question, Text
from steptime.learn.session import Finding, Session, open_session, write_file
from steptime.learn.source import all_lessons, find_lesson

PAGES = Path(__file__).parent / "lessons"
_MARKS = {True: "✓", False: "✗", None: ""}


def page_of(lesson: Lesson) -> Path:
    """Where the page of a lesson lies."""
    return PAGES / f"{lesson.number:02}.md"


def told(part: Part) -> str:
    """What a page has of a part whatever its commands print."""
    match part:
        case Text():
            return part.markdown
        case File():
            return f"`{part.path}`:\n\n```python\n{part.content}```"
        case Question():
            choices = "".join(f"\n- {one}" for one in part.choices)
            return f"**Question.** {part.ask}\n{choices}".rstrip()
        case Command():
            return f"$ {part.line}\n"
        case Exercise():
            return (
                f"**Exercise.** Edit `{part.file}`, which `{part.line}` judges:\n\n"
                f"```python\n{part.starter}```"
            )


def page(lesson: Lesson, session: Session) -> str:
    """The page of a lesson, all of whose commands are run in the session's folder."""
    head = (
        f"# {lesson.title}\n\n<!-- made of the lesson's source by `python docs/make_lessons.py` -->"
        f"\n\n*{lesson.question}* {lesson.minutes} minutes: `steptime learn {lesson.number}` asks "
        "before it shows."
    )
    pieces = [head, *(_written(session, part) for part in lesson.parts)]
    last = "Read next: [all lessons](../learn.md), [the terms](../glossary.md)."
    return "\n\n".join([*pieces, last]) + "\n"


def _written(session: Session, part: Part) -> str:
    text = told(part)
    if isinstance(part, Question):
        found = session.settle(part)
        return text if found is None else f"{text}\n\n{_shown(found)}"
    if isinstance(part, Command):
        printed, findings = session.perform(part, captured=True)
        block = f"```console\n{text}{printed.strip()}\n```"
        return "\n\n".join([block, *map(_shown, findings)])
    if isinstance(part, Exercise):
        write_file(session.folder / part.file, part.solution)
        session.judge(part, captured=True)
        solution = _folded("A solution", f"```python\n{part.solution}```")
        return f"{text}\n\n{solution}"
    return text


def _shown(found: Finding) -> str:
    """A claim in the open, an answer behind a click."""
    return (
        _folded("The answer", found.text)
        if found.ok is None
        else f"{_MARKS[found.ok]} {found.text}"
    )


def _folded(title: str, text: str) -> str:
    return f'<details markdown="1"><summary>{title}</summary>\n\n{text}\n\n</details>'


def main() -> None:
    """Write the pages of the lessons that are named, or of all."""
    numbers = [int(word) for word in sys.argv[1:]]
    for lesson in [find_lesson(one) for one in numbers] or all_lessons():
        with TemporaryDirectory() as folder:
            text = page(lesson, open_session(lesson, Path(folder)))
        PAGES.mkdir(exist_ok=True)
        page_of(lesson).write_text(text, encoding="utf-8")
        print(page_of(lesson).name)


if __name__ == "__main__":
    main()
