"""Lesson: what it says, what it asks before a result is seen, and what it runs for real."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Text:
    """Paragraphs, as Markdown."""

    markdown: str


@dataclass(frozen=True)
class File:
    """A script that the lesson's commands run; it is shown, and written to the lesson's folder."""

    path: str
    content: str


@dataclass(frozen=True)
class Question:
    """What the reader is to say before the run that answers it.

    ``answer`` is an expression over what the lesson's commands gave, by their names, as
    ``expressions.py`` reads them: of a number, or of one of the ``choices``. ``because`` is a
    template over the same names, told with the answer. A number is right within ``tolerance`` of
    the answer, as a share of it.
    """

    name: str
    ask: str
    answer: str
    because: str
    unit: str = ""
    tolerance: float = 0.05
    choices: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim:
    """What must be true of what the commands gave: the expression ``holds``, told by ``text``.

    ``text`` is a template. ``timed``: it is about measured time, which a busy machine may upset.
    """

    text: str
    holds: str
    timed: bool = False


@dataclass(frozen=True)
class Command:
    """A command that is run for real, and the claims that its numbers must bear out."""

    name: str
    line: str
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class Exercise:
    """A file that the reader writes, beginning with ``starter``, and the command that judges it.

    It is solved when the expression ``passes`` is true of what the command gave; until then the
    template ``wrong`` says how far it is.
    """

    name: str
    file: str
    starter: str
    solution: str
    line: str
    passes: str
    wrong: str
    hints: tuple[str, ...] = ()


Part: TypeAlias = Text | File | Question | Command | Exercise


@dataclass(frozen=True)
class Lesson:
    """One lesson: the question that it answers, and its parts in order."""

    number: int
    title: str
    question: str
    minutes: int
    parts: tuple[Part, ...]

    def questions(self) -> Iterator[Question]:
        """Its questions in order."""
        return (part for part in self.parts if isinstance(part, Question))

    def commands(self) -> Iterator[Command]:
        """Its commands in order."""
        return (part for part in self.parts if isinstance(part, Command))

    def exercises(self) -> Iterator[Exercise]:
        """Its exercises in order."""
        return (part for part in self.parts if isinstance(part, Exercise))
