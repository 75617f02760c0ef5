"""``data``: How does my text become tokens to train on?"""

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from steptime.cli.options import Flat, PrintOptions
from steptime.cli.printing import say, say_json
from steptime.data.options import PrepareOptions
from steptime.errors import UsageError

if TYPE_CHECKING:
    from steptime.data.prepare import Progress

_TOLD_EVERY_S = 30.0

data = App(name="data", help="How does my text become tokens to train on?")


@data.command
def prepare(
    *sources: Annotated[Path, Parameter(name="SOURCE")],
    out: Path | None = None,
    options: Flat[PrepareOptions] = PrepareOptions(),
    output: Flat[PrintOptions] = PrintOptions(),
) -> None:
    """Make shards of tokens, which steptime train --data takes, of text.

    Reads any amount of text in little memory and on all cores. What was stopped, the same command
    goes on with; the result is the same to the byte.

    Parameters
    ----------
    sources
        Files of text, where <|endoftext|> may separate documents, of JSON Lines (.jsonl) or of
        Parquet; the former also packed (.gz, .zst); or folders of such.
    out
        The folder of the shards and their index.

    """
    from steptime.data.prepare import prepare as prepared

    if not sources:
        raise UsageError("nothing says what to prepare: name a file or a folder of text")
    if out is None:
        raise UsageError("nothing says where to: give --out a folder")
    with _telling(output) as tell:
        found = prepared(sources, out, options, tell)
    if output.json:
        say_json(found.json())
        return
    say(f"{found}\n\nsteptime train --data {shlex.quote(str(out))}")


@contextmanager
def _telling(output: PrintOptions) -> Iterator[Callable[["Progress"], None]]:
    """What shows progress on stderr: a bar in a terminal, elsewhere a line every half minute."""
    with output.progress(0) as bar:
        if not bar.disable:
            task = bar.add_task("", total=100)
            yield lambda now: bar.update(task, completed=_percent(now), description=_words(now))
            return
    last = time.monotonic()

    def tell(now: "Progress") -> None:
        nonlocal last
        if not output.quiet and time.monotonic() - last > _TOLD_EVERY_S:
            last = time.monotonic()
            print(f"{_percent(now)} %: {_words(now)}", file=sys.stderr)

    yield tell


def _percent(now: "Progress") -> int:
    return 100 * now.done_bytes // max(1, now.total_bytes)


def _words(now: "Progress") -> str:
    """As "34.5 million tokens, 3.1 million a second, 12min left"."""
    from steptime.units import format_seconds

    left = "" if now.remaining_s is None else f", {format_seconds(now.remaining_s)} left"
    return (
        f"{now.new_tokens / 1e6:,.1f} million tokens, {now.tokens_per_s / 1e6:.1f} million a second"
        f"{left}"
    )
