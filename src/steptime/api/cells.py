"""Results in a terminal's words and in the cell of a notebook."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from steptime.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

_COLUMNS = 116
_STYLE = "font-family: monospace; line-height: 1.25; overflow-x: auto"


class Track(Protocol):
    """Hands on what a loop goes through, and may show how far it is, as ``tqdm`` does."""

    def __call__(self, over: Sequence[T], what: str, /) -> Iterable[T]:
        """``over`` itself, or something that gives the same; ``what`` is done with each."""


def untracked(over: Sequence[T], _: str, /) -> Iterable[T]:
    """Show nothing."""
    return over


def text_of(write: "Callable[[Console], None]") -> str:
    """What ``write`` prints on a console, as plain text."""
    return _recorded(write).export_text().strip("\n")


def html_of(write: "Callable[[Console], None]") -> str:
    """What ``write`` prints on a console, as HTML with its colours."""
    code = f'<pre style="{_STYLE}">{{code}}</pre>'
    return _recorded(write).export_html(inline_styles=True, code_format=code)


def frame_of(page: str, height: int) -> str:
    """A whole HTML page in a frame of ``height`` pixels."""
    return (
        f'<iframe srcdoc="{escape(page)}" width="100%" height="{height}" '
        'style="border: 0" sandbox="allow-scripts"></iframe>'
    )


def frame_of_rows(rows: Iterable[object]) -> Any:
    """A pandas DataFrame of the rows; UsageError where there is no pandas."""
    try:
        import pandas
    except ImportError:
        raise UsageError("a table for pandas needs pandas: pip install pandas") from None
    return pandas.DataFrame(list(rows))


def _recorded(write: "Callable[[Console], None]") -> "Console":
    from rich.console import Console

    console = Console(
        record=True,
        file=StringIO(),
        width=_COLUMNS,
        color_system="truecolor",
        highlight=False,
        markup=False,
        force_jupyter=False,
        force_terminal=True,
    )
    write(console)
    return console
