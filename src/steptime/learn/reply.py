"""A reader's reply to a question: what the words mean, and whether they are right."""

from typing import Any

from steptime.errors import UsageError
from steptime.learn.lesson import Question


def read_reply(question: Question, said: str) -> float | str:
    """What the reader's words mean: a number, with the unit or without, or one of the choices.

    Choices are named by their text, the beginning of it, or their number from 1. Raises UsageError
    where the words are neither.
    """
    words = said.strip()
    if question.choices:
        return _choice(question.choices, words)
    number = words.lower().removesuffix(question.unit.lower()).strip(" ×x%").replace(",", "")
    top, over, bottom = number.partition("/")
    try:
        return float(top) / float(bottom) if over else float(top)
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"{words!r} is no number, such as 12, 0.5 or 3/4") from None


def is_right(question: Question, said: float | str, right: Any) -> bool:
    """Whether a reply is the right one, a number within the question's tolerance."""
    if isinstance(said, str):
        return said == str(right)
    return abs(said - float(right)) <= question.tolerance * abs(float(right))


def _choice(choices: tuple[str, ...], words: str) -> str:
    if words.isdecimal() and 1 <= int(words) <= len(choices):
        return choices[int(words) - 1]
    meant = [one for one in choices if words and one.lower().startswith(words.lower())]
    if len(meant) != 1:
        raise UsageError(f"{words!r} is none of {', '.join(choices)}")
    return meant[0]
