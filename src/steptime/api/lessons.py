"""``steptime.lesson``: a lesson of ``steptime learn`` in a notebook."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steptime.learn.notebook import NotebookLesson


def lesson(number: int, out: str | Path = "learn") -> "NotebookLesson":
    """A lesson in a notebook, as ``steptime learn NUMBER --notebook FILE`` writes them.

    Its cells call ``answer``, ``run``, ``hint`` and ``judge``; work is kept below the folder
    ``out``. Raises UsageError where there is no such lesson, or the folder cannot be written.

    >>> import steptime as st
    >>> ring = st.lesson(2)
    >>> ring.answer("sends", 1.75)
    Noted: the next run tells.
    """
    from steptime.learn.notebook import NotebookLesson

    return NotebookLesson(number, out)
