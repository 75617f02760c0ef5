"""``export``: Give this run to my tools."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from steptime.cli.options import Flat, PrintOptions
from steptime.cli.printing import say, say_json, writing
from steptime.study.exports import formats

if TYPE_CHECKING:
    Format: TypeAlias = str
else:
    Format = Literal[tuple(formats())]

_FORMATS = "; ".join(f"{name}: {what}" for name, what in formats().items())

_PATIENCE_S = 2.0


def export(
    run: Annotated[Path, Parameter(name="RUN")],
    /,
    *,
    to: Annotated[Format, Parameter(help=f"{_FORMATS}.")],
    out: Path | None = None,
    strategy: str | None = None,
    algorithm: str = "",
    per_rank: bool = False,
    printed: Flat[PrintOptions] = PrintOptions(),
) -> None:
    """Give this run to my tools.

    Parameters
    ----------
    run
        The folder of a run of train, compare, simulate, proxy, record or replay; for weights of a
        training, or one of its checkpoints.
    out
        Folder, or a file that ends as the format does; default: the folder export in RUN.
    strategy
        The one whose program is written to chakra, goal or atlahs; default: each that ran.
    algorithm
        Algorithms of collectives for goal and atlahs, as all_reduce=ring,broadcast=binomial;
        default: those of the run where it names them, else rings and binomial trees.
    per_rank
        A Chrome trace a rank, as HTA reads them.

    """
    from steptime.api.exporting import export as write

    with writing(out or run), _told(printed) as tell:
        done = write(
            run, to, out, strategy=strategy, algorithm=algorithm, per_rank=per_rank, tell=tell
        )
    if printed.json:
        say_json(done.record)
    else:
        say(printed.rendered(done.print))


@contextmanager
def _told(printed: PrintOptions) -> Iterator[Callable[[int, int], None]]:
    """What is told how much of how much is done: a bar on stderr once that takes long."""
    begin = time.monotonic()
    with ExitStack() as stack:
        shown: list[Any] = []

        def tell(done: int, whole: int) -> None:
            if not shown and time.monotonic() - begin > _PATIENCE_S:
                progress = stack.enter_context(printed.progress(0))
                shown.extend((progress, progress.add_task("export")))
            if shown:
                shown[0].update(shown[1], completed=done, total=whole)

        yield tell
