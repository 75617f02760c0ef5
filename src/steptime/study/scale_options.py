"""What a scaling study can be asked for: a grid of ranks and threads, and its baseline."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

from steptime.errors import UsageError
from steptime.timeline.efficiency import ScalingKind
from steptime.train.options import JobOptions

_SIMULATED = ("context", "batch", "accumulate", "reduce_dtype", "bucket")
"""The options of a training that a simulation reads too."""
_POINT = re.compile(r"(\d+)\s*[x×]\s*(\d+)(?::(\w+))?")


@dataclass(frozen=True, order=True)
class Point:
    """One place of the grid: so many ranks of so many threads each."""

    ranks: int
    threads: int

    @property
    def workers(self) -> int:
        """Threads of all ranks together."""
        return self.ranks * self.threads

    def __str__(self) -> str:
        return f"{self.ranks}x{self.threads}"


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The points of a study in order, each under some strategies, and what they are held against.

    With one rank nothing is synchronised and all strategies do the same: it runs the first alone.
    """

    points: tuple[Point, ...]
    strategies: tuple[str, ...]
    kind: ScalingKind
    baseline: tuple[Point, str]

    def strategies_at(self, point: Point) -> tuple[str, ...]:
        """The strategies that run at a point."""
        return self.strategies if point.ranks > 1 else self.strategies[:1]

    def batch_at(self, point: Point, batch: int) -> int:
        """Rows of the global batch at a point: the same everywhere, or the same for each rank."""
        return batch * point.ranks if self.kind == "weak" else batch


def parse_counts(text: str, option: str) -> tuple[int, ...]:
    """The numbers of a list such as ``1,2,4``, in order and each once.

    Raises UsageError, naming the option, where one is no number from 1 up.
    """
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part.isdecimal() or int(part) < 1:
            raise UsageError(f"--{option} has {part!r}: write numbers from 1 up, as 1,2,4")
    return tuple(sorted({int(part) for part in parts}))


def make_grid(
    ranks: Sequence[int],
    threads: Sequence[int],
    strategies: Sequence[str],
    kind: ScalingKind,
    baseline: str | None,
) -> Grid:
    """The grid of all these ranks and threads.

    The baseline is a point of it such as ``1x1``, or ``2x1:overlapped`` with the strategy where
    there are several; by default the fewest ranks with the fewest threads, under the first
    strategy. Raises UsageError where the grid has no such point.
    """
    points = tuple(Point(r, t) for r in ranks for t in threads)
    grid = Grid(
        points=points,
        strategies=tuple(strategies),
        kind=kind,
        baseline=(points[0], strategies[0]),
    )
    return grid if baseline is None else _with_baseline(grid, baseline)


def _with_baseline(grid: Grid, text: str) -> Grid:
    match = _POINT.fullmatch(text.strip())
    if not match:
        raise UsageError(f"--baseline is {text!r}: write RANKSxTHREADS, as 1x1 or 2x1:replicated")
    point = Point(int(match[1]), int(match[2]))
    if point not in grid.points:
        raise UsageError(
            f"--baseline {text} is not in the grid, which has {', '.join(map(str, grid.points))}: "
            "name one of these, or add it by --ranks and --threads"
        )
    able = grid.strategies_at(point)
    strategy = match[3] or able[0]
    if strategy not in able:
        raise UsageError(
            f"--baseline {text} is not in the grid: at {point} it has {', '.join(able)}"
        )
    return Grid(
        points=grid.points,
        strategies=grid.strategies,
        kind=grid.kind,
        baseline=(point, strategy),
    )


def asked_kind(*, strong: bool, weak: bool, simulated: bool) -> ScalingKind:
    """What was asked for; where nothing was, strong here and weak on a cluster.

    Raises UsageError where both were.
    """
    if strong and weak:
        raise UsageError("--strong and --weak both say what stays the same: leave one out")
    return "weak" if weak or (simulated and not strong) else "strong"


def refuse_live_options(
    options: JobOptions, default: JobOptions, **others: tuple[str, str]
) -> None:
    """Raise UsageError for an option about a live training, which a simulation would not read.

    ``default``: what ``options`` are where nothing was asked for; ``others``: what was given of
    further options, and their defaults.
    """
    given = dict(others)
    for group in ("model", "data", "train"):
        asked, usual = getattr(options, group), getattr(default, group)
        given |= {
            field.name: (getattr(asked, field.name), getattr(usual, field.name))
            for field in fields(asked)
            if field.name not in _SIMULATED
        }
    for name in ("compiled", "steps", "warmup", "seed"):
        given[name] = (getattr(options, name), getattr(default, name))
    for name, (value, usual) in given.items():
        if value != usual:
            option = "compile" if name == "compiled" else name.replace("_", "-")
            raise UsageError(
                f"--{option} is about a training here, and --cluster simulates one: leave one out"
                + "; name a model by its size, as gpt2-124M" * hasattr(options.model, name)
            )
