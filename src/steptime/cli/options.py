"""Options that several verbs share."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, TypeVar

from cyclopts import Parameter
from rich.console import Console

from steptime.errors import UsageError
from steptime.limits import check_limits
from steptime.units import parse_seconds
from steptime.workloads.precision import PrecisionName

if TYPE_CHECKING:
    from rich.progress import Progress

    from steptime.api.cells import Track

CompileChoice: TypeAlias = Literal["auto", "on", "off"]
PrecisionChoice: TypeAlias = Literal["auto"] | PrecisionName
_LONGEST_TIMEOUT_S = 3.6e6  # what overflows in torch is far above that
_T = TypeVar("_T")
Flat: TypeAlias = Annotated[_T, Parameter(name="*")]
"""A dataclass whose fields are options of the verb, without a prefix."""


@dataclass(frozen=True, kw_only=True)
class RankOptions:
    """Which ranks run."""

    ranks: int | None = None
    """Ranks to start here; under torchrun, mpirun or srun the launcher's world is used and this,
    if given, must agree with it."""

    threads: int | None = None
    """Threads a rank computes with; default: the cores of this machine divided by its ranks."""

    backend: Literal["gloo", "nccl", "steptime", "mpi"] = "gloo"
    """What communicates; nccl puts each rank on its own GPU, steptime shares memory within a host,
    and mpi, for bench, tune, proxy, replay and topo, does without torch."""

    timeout: str = "5min"
    """How long a rank waits for another before it gives up."""

    def __post_init__(self) -> None:
        check_limits(self)
        if not 0 < self.timeout_s <= _LONGEST_TIMEOUT_S:
            raise UsageError(f"--timeout is {self.timeout}: it must be above 0 and at most 1000h")

    @property
    def timeout_s(self) -> float:
        """The time limit of one collective, in seconds."""
        return parse_seconds(self.timeout)


@dataclass(frozen=True, kw_only=True)
class PrintOptions:
    """What is printed."""

    json: bool = False
    """Print one JSON object on stdout and nothing else; the rest goes to stderr."""

    quiet: bool = False
    """Print the answer alone, no progress."""

    no_color: bool = False
    """Print without colour, as NO_COLOR does."""

    def console(self, *, stderr: bool = False) -> Console:
        """Where to print: stdout for the answer, stderr for all else."""
        plain = self.no_color or os.environ.get("NO_COLOR")
        return Console(
            stderr=stderr,
            color_system=None if plain else "auto",
            highlight=False,
            markup=False,  # brackets in a title are no style
        )

    def rendered(self, write: Callable[[Console], None]) -> str:
        """What ``write`` prints on a console, as text without blanks at the ends of its lines."""
        console = self.console()
        with console.capture() as text:
            write(console)
        return "\n".join(line.rstrip() for line in text.get().rstrip().splitlines())

    @contextmanager
    def progress(self, rank: int) -> "Iterator[Progress]":
        """A progress bar on stderr, of rank 0 alone, gone when the work is done."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        console = self.console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        shown = rank == 0 and not self.quiet and console.is_terminal
        with Progress(*columns, console=console, transient=True, disable=not shown) as progress:
            yield progress

    @contextmanager
    def tracking(self, rank: int = 0) -> "Iterator[Track]":
        """A progress bar for each loop that is given to the result, as ``progress`` shows them."""
        with self.progress(rank) as progress:
            yield lambda over, what: progress.track(over, description=what)


@dataclass(frozen=True, kw_only=True)
class OutputOptions(PrintOptions):
    """What is printed and what is left behind."""

    out: Path | None = None
    """Folder of the run; default: runs/VERB-TIME."""
