"""What a scaling study can be asked for: a grid of ranks and threads, and its baseline."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from steptime.errors import UsageError
from steptime.limits import LIMITS, check_within, whole_number
from steptime.points.options import SweepOptions
from steptime.train.options import DataOptions, JobOptions, ModelOptions, TrainOptions
from steptime.workloads.spec import StepSpec

if TYPE_CHECKING:
    from steptime.timeline.efficiency import ScalingKind

BATCH = 32
"""Rows of the global batch where nothing is said, or in weak scaling of each rank."""

_LIVE = (
    *("model", "layers", "hidden", "heads", "kv_heads", "ffn", "tokens", "batch"),
    "micro_batches",
    *("precision", "reduce_dtype", "bucket"),
)
"""What a training here reads of a specification."""
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
    kind: "ScalingKind"
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
    counts = set()
    for part in text.split(","):
        count = whole_number(part.strip())
        if not count:
            raise UsageError(f"--{option} has {part.strip()!r}: write numbers from 1 up, as 1,2,4")
        check_within(f"--{option}", count, *LIMITS[option])
        counts.add(count)
    return tuple(sorted(counts))


def make_grid(
    ranks: Sequence[int],
    threads: Sequence[int],
    strategies: Sequence[str],
    kind: "ScalingKind",
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


def asked_kind(*, strong: bool, weak: bool, simulated: bool) -> "ScalingKind":
    """What was asked for; where nothing was, strong here and weak on a cluster.

    Raises UsageError where both were.
    """
    if strong and weak:
        raise UsageError("--strong and --weak both say what stays the same: leave one out")
    return "weak" if weak or (simulated and not strong) else "strong"


@dataclass(frozen=True, kw_only=True)
class LiveOptions:
    """What only a training here has."""

    model: str | None = None
    """The size alone, as nano, micro, 124M, 355M, 774M or 1558M."""

    init: Path | None = None
    """Weights and dimensions from an llm.c checkpoint, such as gpt2_124M.bin."""

    lr: float | None = None
    """Peak learning rate; default: what suits the model."""

    clip: float = 1.0
    """Largest norm of the whole gradient; 0 leaves it as it is."""

    threads: str = "1"
    """Numbers of threads that a rank computes with, with commas between them."""

    steps: int = 40
    """Timed steps of each cell."""

    warmup: int = 5
    """Steps before them that are not timed."""

    compiled: Annotated[bool, Parameter(name="--compile")] = False
    """Compile the model's blocks with torch.compile; on a CPU that needs a C++ compiler."""

    seed: int = 0
    """Makes the initial weights and the order of the data."""

    backend: Literal["gloo", "nccl", "steptime"] = "gloo"
    """What communicates."""

    timeout: str = "5min"
    """How long a rank waits for another before it gives up."""


def live_job(spec: StepSpec, data: DataOptions, live: LiveOptions) -> JobOptions:
    """The training of a step here.

    Raises UsageError for what only ranks that share a model have, and as the options do.
    """
    for field in spec.given():
        if field not in _LIVE:
            raise UsageError(
                f"--{field.replace('_', '-')} is not for a training here, where ranks are replicas "
                "that train alike: leave it out, or give --cluster"
            )
    if spec.precision == "fp8":
        raise UsageError(
            "fp8 is for steps on a cluster, and nothing is trained in it here: choose --precision "
            "bf16, or give --cluster"
        )
    dimensions = ModelOptions(
        name=spec.model or None,
        model=live.model,
        layers=spec.layers,
        heads=spec.heads,
        kv_heads=spec.kv_heads,
        hidden=spec.hidden,
        ffn=spec.ffn,
        tokens=spec.tokens,
        init=live.init,
    )
    usual = TrainOptions()
    train = TrainOptions(
        batch=spec.batch or BATCH,
        accumulate=spec.micro_batches or usual.accumulate,
        lr=live.lr,
        clip=live.clip,
        reduce_dtype=spec.reduce_dtype or usual.reduce_dtype,
        bucket=spec.bucket or usual.bucket,
    )
    return JobOptions(
        model=dimensions,
        data=data,
        train=train,
        precision=spec.precision or "fp32",
        compiled=live.compiled,
        steps=live.warmup + live.steps,
        warmup=live.warmup,
        seed=live.seed,
    )


def refuse_live_options(*given: LiveOptions | DataOptions) -> None:
    """Raise UsageError for an option about a live training, which a simulation would not read."""
    for options in given:
        for field in fields(options):
            if getattr(options, field.name) != field.default:
                option = "compile" if field.name == "compiled" else field.name.replace("_", "-")
                raise UsageError(
                    f"--{option} is about a training here, and --cluster simulates one: leave one "
                    "out" + "; name a model by its size, as gpt2-124M" * (option == "model")
                )


def refuse_sweep_options(sweep: SweepOptions) -> None:
    """Raise UsageError for an option about points that are simulated, with a training here."""
    for field in fields(sweep):
        if getattr(sweep, field.name) != field.default:
            raise UsageError(
                f"--{field.name} is for simulated points, and a training here needs the machine "
                "to itself: leave it out, or give --cluster"
            )
