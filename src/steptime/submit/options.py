"""What a scheduler is asked for: options of submit, checked before anything is sent."""

import re
import shlex
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, TypedDict

from cyclopts import Parameter

from steptime.errors import UsageError
from steptime.limits import MOST_RANKS, check_limits, check_within
from steptime.units import parse_seconds

Scheduler: TypeAlias = Literal["slurm"]

_LEAST_TIME_S = 60  # Slurm counts in minutes
_OF_SLURM = re.compile(r"\d+-\d+(:\d+){0,2}|\d+(:\d+){1,2}")
"""A time as Slurm writes it: 1-12, 90:00, 1:30:00 or 1-12:00:00."""


@dataclass(frozen=True, kw_only=True)
class SubmitOptions:
    """What the scheduler is asked for."""

    scheduler: Scheduler = "slurm"
    """Whose job it becomes."""

    nodes: int = 1
    """Nodes of the job."""

    ranks_per_node: int | None = None
    """Ranks on each node; default: one for each GPU, or 1."""

    gpus_per_node: int | None = None
    """GPUs of each node, of which each rank sees all and takes that of its LOCAL_RANK."""

    cpus_per_rank: int | None = None
    """Cores of each rank; default: the site's, mostly 1."""

    time: str | None = None
    """How long it may run: 90min, 12h, or as Slurm writes it, 1-12:00:00; default: the site's."""

    notice: str = "2min"
    """How long before its time is over the ranks get SIGTERM, at which training keeps its state."""

    partition: str | None = None
    """The partition, or several with commas; default: the site's."""

    account: str | None = None
    """The account that pays."""

    name: str | None = None
    """What the queue calls it; default: the verb or the script."""

    setup: str | None = None
    """Commands for the shell before the ranks start, as 'module load cuda'."""

    requeue: Annotated[bool | None, Parameter(negative="--no-requeue")] = None
    """Let it wait again, and go on, after preemption, a dead node and the end of its time; default:
    where a training has --checkpoint-every and --resume auto, and loses nothing."""

    sbatch: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    """More options for sbatch, as '--constraint=a100 --exclusive'."""

    def __post_init__(self) -> None:
        check_limits(self)
        check_within("--nodes times --ranks-per-node", self.ranks, 1, MOST_RANKS)
        for option in ("partition", "account", "name"):
            value = getattr(self, option)
            if value is not None and not re.fullmatch(r"[\w.,:/@+=-]+", value):
                raise UsageError(f"--{option} is {value!r}: write a name without blanks")
        if self.setup is not None and "\0" in self.setup:
            raise UsageError("--setup is for a shell, which takes no zero byte")
        if self.time is not None and not _OF_SLURM.fullmatch(self.time):
            limit_s = parse_seconds(self.time)
            if limit_s < _LEAST_TIME_S:
                raise UsageError(
                    f"--time is {self.time}: Slurm counts in minutes, give 1min or more"
                )
            if limit_s <= self.notice_s:
                raise UsageError(
                    f"--notice is {self.notice}, and the job has {self.time}: give more --time, or "
                    "less --notice"
                )
        _ = self.notice_s, self.directives  # refused where they cannot be

    @property
    def ranks(self) -> int:
        """Ranks of the job."""
        return self.nodes * self.ranks_here

    @property
    def ranks_here(self) -> int:
        """Ranks on each node."""
        return self.ranks_per_node or self.gpus_per_node or 1

    @property
    def notice_s(self) -> int:
        """Whole seconds between SIGTERM and the end of the job's time."""
        seconds = parse_seconds(self.notice)
        check_within("--notice", seconds, 1, 65535)  # sbatch takes no more
        return round(seconds)

    @property
    def limit(self) -> str | None:
        """``--time`` as Slurm writes it."""
        if self.time is None or _OF_SLURM.fullmatch(self.time):
            return self.time
        hours, seconds = divmod(round(parse_seconds(self.time)), 3600)
        return f"{hours // 24}-{hours % 24:02}:{seconds // 60:02}:{seconds % 60:02}"

    @property
    def directives(self) -> list[str]:
        """What ``--sbatch`` asks for, an option each with its value.

        Raises UsageError where that does not begin with an option, or has an open quote.
        """
        try:
            words = shlex.split(self.sbatch or "")
        except ValueError as error:
            raise UsageError(
                f"--sbatch is {self.sbatch!r}: {error}".replace("No c", "no c")
            ) from None
        found: list[str] = []
        for word in words:
            if word.startswith("-"):
                found.append(word)
            elif found and "=" not in found[-1]:
                found[-1] += f" {quoted(word)}"
            else:
                raise UsageError(
                    f"--sbatch is {self.sbatch!r}, and {word!r} is no option: begin it with --"
                )
        return found


class JobOptions(TypedDict, total=False):
    """The same for a function that takes them by name, but for the scheduler, of which is one."""

    nodes: int
    ranks_per_node: int | None
    gpus_per_node: int | None
    cpus_per_rank: int | None
    time: str | None
    notice: str
    partition: str | None
    account: str | None
    name: str | None
    setup: str | None
    requeue: bool | None
    sbatch: str | None


def quoted(word: str) -> str:
    """A value of a line of #SBATCH, in quotes where it has blanks."""
    return f'"{word}"' if re.search(r"\s", word) else word
