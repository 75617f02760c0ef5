"""A format of traces, as ``formats/`` registers it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from steptime.record.traces.document import Document
from steptime.record.traces.trace import RankTrace


@dataclass(frozen=True)
class Format:
    """What traces are called, whether a document is one, and how to read one.

    ``name``: as in "a NAME". ``order``: of several that recognise a document the lowest reads it.
    ``read`` gives the ranks that a document tells of; -1 is a rank, or a size of the world, that
    the content does not tell. Raises any error for ``files.reading`` to tell.
    """

    name: str
    recognises: Callable[[Document], bool]
    read: Callable[[Document], Sequence[RankTrace]]
    order: int = 0
