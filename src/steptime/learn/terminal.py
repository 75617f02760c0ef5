"""A lesson in the terminal: it tells, asks, runs, and says how right the reader was."""

from collections.abc import Sequence

from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text as Words

from steptime import files
from steptime.errors import SteptimeError, UsageError
from steptime.learn.lesson import Command, Exercise, File, Lesson, Part, Question, Text
from steptime.learn.session import Finding, Progress, Session, write_file

_WIDTH = 80
_MOST_BYTES = 1 << 20
_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("·", "cyan")}


class Stopped(Exception):  # noqa: N818 - no error: the reader has had enough for now
    """The reader stops here, or nobody is there to reply."""


class Teacher:
    """Takes a reader through a session's parts, from where they were left.

    Without ``asks`` nobody is asked or waited for: answers and solutions are told.
    """

    def __init__(self, console: Console, session: Session, *, asks: bool) -> None:
        self._console = console
        self._session = session
        self._asks = asks

    def teach(self) -> None:
        """Go through the parts that are left; raises Stopped where the reader stops."""
        lesson, progress = self._session.lesson, self._session.progress
        first = min(progress.done, len(lesson.parts))
        where = f"lesson {lesson.number} · {lesson.minutes} minutes"
        if 0 < first < len(lesson.parts):
            where += f" · from part {first + 1} of {len(lesson.parts)}"
        self._console.print(f"{lesson.title} · {where}", style="bold")
        self._console.print(Rule(characters="─"), width=min(_WIDTH, self._console.width))
        if self._console.width < _WIDTH:
            self._console.print(
                f"Tables wider than {self._console.width} columns are cut: {_WIDTH} show them "
                "whole.\n"
            )
        for done, part in enumerate(lesson.parts[first:], first + 1):
            self._take(part)
            progress.done = done
            self._session.keep()

    def _take(self, part: Part) -> None:
        match part:
            case Text():
                self._markdown(part.markdown)
            case File():
                self._code(part.path, part.content)
            case Question():
                self._question(part)
            case Command():
                self._command(part)
            case Exercise():
                self._exercise(part)

    def _markdown(self, text: str) -> None:
        self._console.print(Markdown(text), width=min(_WIDTH, self._console.width))
        self._console.print()

    def _code(self, path: str, content: str) -> None:
        self._console.print(f"{self._session.folder / path}:", style="dim")
        code = Syntax(content.rstrip(), "python", theme="ansi_light", word_wrap=True)
        self._console.print(Padding(code, (0, 0, 1, 2)))

    def _question(self, question: Question) -> None:
        self._markdown(f"**Question.** {question.ask}")
        for number, choice in enumerate(question.choices, 1):
            self._console.print(f"  {number}. {choice}")
        if question.choices:
            self._console.print()
        if self._asks:
            self._ask(question)
        if found := self._session.settle(question):
            self._tell(found)

    def _ask(self, question: Question) -> None:
        unit = f" in {question.unit}" if question.unit else ""
        hints = list(question.hints)
        while said := self._prompt(f"your answer{unit} (? hint, Enter skips, q stops): "):
            if said == "?":
                self._console.print(hints.pop(0) if hints else "There is no more hint.")
                continue
            try:
                return self._session.reply(question, said)
            except UsageError as error:
                self._console.print(f"{error}.")
        return None

    def _command(self, command: Command) -> None:
        self._console.print(f"$ {command.line}\n", style="bold", soft_wrap=True)
        _, found = self._session.perform(command)
        self._console.print()
        for one in found:
            self._tell(one)
        if self._asks:
            self._prompt("Enter goes on, q stops: ")

    def _exercise(self, exercise: Exercise) -> None:
        path = self._session.folder / exercise.file
        hints = list(exercise.hints)
        self._markdown(f"**Exercise.** Edit `{path}`. This judges it: `{exercise.line}`")
        if self._asks:
            content = files.bounded_bytes(path, "file of the exercise", _MOST_BYTES)
            self._code(exercise.file, content.decode(errors="replace"))
        while self._asks:
            said = self._prompt(
                "edit the file, then Enter judges it (? hint, s solution, n next, q stops): "
            )
            if said == "?":
                self._console.print(hints.pop(0) if hints else "There is no more hint.")
            elif said == "n":
                return
            elif said == "s":
                self._code("a solution", exercise.solution)
            elif self._judged(exercise):
                return
        self._code(exercise.file, exercise.solution)
        write_file(path, exercise.solution)
        self._judged(exercise)

    def _judged(self, exercise: Exercise) -> bool:
        self._console.print(f"$ {exercise.line}\n", style="bold", soft_wrap=True)
        try:
            _, found = self._session.judge(exercise)
        except SteptimeError as error:
            found = Finding(False, f"{error}.")
        self._tell(found)
        return bool(found.ok)

    def _tell(self, found: Finding) -> None:
        mark, style = _MARKS[found.ok]
        said = Words.assemble((mark, style), " ", found.text)
        self._console.print(said, width=min(_WIDTH, self._console.width))
        if found.timed and not found.ok:
            self._console.print("  Times decide this one: a busy machine may upset it.")
        self._console.print()

    def _prompt(self, words: str) -> str:
        try:
            said = self._console.input(words).strip()
        except EOFError:
            self._console.print()
            raise Stopped from None
        if said == "q":
            raise Stopped
        return said


def print_lessons(console: Console, lessons: Sequence[tuple[Lesson, Progress]]) -> None:
    """Print the lessons, their questions, and how far the reader is in each."""
    for lesson, progress in lessons:
        console.print(f"{lesson.number:>2}  {lesson.title}", style="bold")
        console.print(Padding(f"{lesson.question} {_standing(lesson, progress)}", (0, 0, 0, 4)))


def _standing(lesson: Lesson, progress: Progress) -> str:
    """How far a reader is: the minutes, the part, or how many answers were right."""
    if not progress.done:
        return f"{lesson.minutes} minutes"
    if progress.done < len(lesson.parts):
        return f"at part {progress.done + 1} of {len(lesson.parts)}"
    named = [one.name for one in lesson.questions()] + [one.name for one in lesson.exercises()]
    right = sum(bool(found.ok) for name, found in progress.findings.items() if name in named)
    return f"done, {right} of {len(named)} right"
