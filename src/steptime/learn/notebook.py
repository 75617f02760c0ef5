"""A lesson as a notebook, of the same source: its cells ask, run and judge by a ``st.lesson``."""

import json
from pathlib import Path
from typing import Any

from steptime.learn.lesson import Command, Exercise, File, Lesson, Part, Question, Text
from steptime.learn.session import Finding, open_session
from steptime.learn.source import find_lesson

_MARKS = {True: "✓", False: "✗", None: "·"}


class NotebookLesson:
    """A lesson in a notebook; every cell calls one of its methods.

    Work is kept below the folder ``out``, from where another start of the notebook goes on.
    """

    def __init__(self, number: int, out: str | Path = "learn") -> None:
        self._session = open_session(find_lesson(number), Path(out))
        self._hints = {one.name: list(one.hints) for one in self._session.lesson.questions()}
        self._hints |= {one.name: list(one.hints) for one in self._session.lesson.exercises()}

    def answer(self, name: str, said: float | str | None = None) -> None:
        """Say what you expect, before the run that tells; None for no reply."""
        question = next(one for one in self._session.lesson.questions() if one.name == name)
        if said is not None:
            self._session.reply(question, str(said))
        if found := self._session.settle(question):
            _tell(found)
        elif said is not None:
            print("Noted: the next run tells.")

    def hint(self, name: str) -> None:
        """Print the next hint for a question or an exercise."""
        print(self._hints[name].pop(0) if self._hints.get(name) else "There is no more hint.")

    def run(self, name: str) -> None:
        """Run a command of the lesson, print what it prints, and what that says of your answers."""
        command = next(one for one in self._session.lesson.commands() if one.name == name)
        text, found = self._session.perform(command, captured=True)
        print(f"$ {command.line}\n\n{text}")
        for one in found:
            _tell(one)
        self._session.keep()

    def judge(self, name: str) -> None:
        """Run the command that judges your file, and print what it says."""
        exercise = next(one for one in self._session.lesson.exercises() if one.name == name)
        text, found = self._session.judge(exercise, captured=True)
        print(f"$ {exercise.line}\n\n{text}")
        _tell(found)
        self._session.keep()


def notebook(lesson: Lesson, *, answers: bool) -> dict[str, Any]:
    """The lesson as a notebook of format 4.5; with ``answers`` its exercises are solved."""
    cells = [
        _markdown(f"# {lesson.title}\n\n{lesson.question}"),
        _code(f"import steptime as st\n\nlesson = st.lesson({lesson.number})"),
    ]
    for part in lesson.parts:
        cells += _cells(lesson, part, answers=answers)
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _cells(lesson: Lesson, part: Part, *, answers: bool) -> list[dict[str, Any]]:
    match part:
        case Text():
            return [_markdown(part.markdown)]
        case File():
            return [_markdown(f"`{part.path}`:\n\n```python\n{part.content}```")]
        case Question():
            choices = "".join(f"\n{number}. {one}" for number, one in enumerate(part.choices, 1))
            unit = f" in {part.unit}" if part.unit else ""
            call = f"lesson.answer({json.dumps(part.name)}, None)"
            return [
                _markdown(f"**Question.** {part.ask}\n{choices}"),
                _code(f"{call}  # your answer{unit} instead of None"),
            ]
        case Command():
            return [_code(f"lesson.run({json.dumps(part.name)})  # {part.line}")]
        case Exercise():
            content = part.solution if answers else part.starter
            path = f"learn/{lesson.number:02}/{part.file}"
            return [
                _markdown(f"**Exercise.** Write this file; `{part.line}` judges it."),
                _code(f"%%writefile {path}\n{content.rstrip()}"),
                _code(f"lesson.judge({json.dumps(part.name)})"),
            ]


def _markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def _code(text: str) -> dict[str, Any]:
    none: dict[str, Any] = {"execution_count": None, "outputs": []}
    return {"cell_type": "code", "metadata": {}, "source": text, **none}


def _tell(found: Finding) -> None:
    print(f"{_MARKS[found.ok]} {found.text}")
