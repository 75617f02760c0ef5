"""A reader's reply to a question: what the words mean, and whether they are right."""

import math
import re
from typing import Any

from steptime.errors import UsageError
from steptime.learn.lesson import Question

_THOUSANDS = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d*)?")


def read_reply(question: Question, said: str) -> float | str:
    """What the reader's words mean: a number, with the unit or without, or one of the choices.

    Choices are named by their text, the beginning of it, or their number from 1. Raises UsageError
    where the words are neither.
    """
    words = said.strip()
    if question.choices:
        return _choice(question.choices, words)
    number = words.lower().removesuffix(question.unit.lower()).strip(" ×x%")
    if _THOUSANDS.fullmatch(number):
        number = number.replace(",", "")
    top, over, bottom = number.partition("/")
    try:
        value = float(top) / float(bottom) if over else float(top)
    except (ValueError, ZeroDivisionError):
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{_short(words)!r} is no number, such as 12, 0.5 or 3/4")
    return value


def is_right(question: Question, said: float | str, right: Any) -> bool:
    """Whether a reply is the right one, a number within the question's tolerance."""
    if isinstance(said, str):
        return said == str(right)
    return abs(said - float(right)) <= question.tolerance * abs(float(right))


def _choice(choices: tuple[str, ...], words: str) -> str:
    by_number = {str(number): one for number, one in enumerate(choices, 1)}
    if words in by_number:
        return by_number[words]
    exact = [one for one in choices if one.lower() == words.lower()]
    begun = [one for one in choices if words and one.lower().startswith(words.lower())]
    meant = exact or begun
    if len(meant) != 1:
        raise UsageError(f"{_short(words)!r} is none of {', '.join(choices)}")
    return meant[0]


def _short(words: str) -> str:
    return words if len(words) <= 40 else f"{words[:39]}…"
