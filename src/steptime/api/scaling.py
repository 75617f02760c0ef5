"""``steptime.scale``: how well a step scales, here on live ranks or simulated on a cluster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from steptime.api.cells import Track, frame_of_rows, html_of, text_of, untracked
from steptime.api.comparing import chosen_strategies, possible
from steptime.api.pictures import cluster_of
from steptime.cluster import Cluster
from steptime.files import write_atomic
from steptime.points.codec import Typed
from steptime.points.options import SweepOptions
from steptime.points.sweep import points
from steptime.runs import run_folder
from steptime.runs.codec import decoded
from steptime.runs.record import Work
from steptime.runs.scale import ScaleCell, ScaleRecord, scale_json
from steptime.study.cases import Asked, able_strategies
from steptime.study.scale import Steps, recorded
from steptime.study.scale_options import (
    Grid,
    LiveOptions,
    live_job,
    make_grid,
    parse_counts,
    refuse_live_options,
    refuse_sweep_options,
)
from steptime.study.scale_simulated import (
    Simulated,
    asked_at,
    batch_of,
    how_at_all,
    identity_of,
    simulate_at,
)
from steptime.timeline.efficiency import ScalingKind
from steptime.train.options import DataOptions
from steptime.workloads.spec import OptionsOfAnyRanks, StepSpec, spec_of
from steptime.workloads.sync import strategy_of_zero

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from rich.console import Console

    from steptime.points.cache import Cache


@dataclass(frozen=True, eq=False, repr=False)
class Scaling:
    """How well a step scales: every cell of a grid against one of them, in the terms of POP.

    ``record``: all cells and what bounds each. ``files``: records and traces of cells that lie in
    no folder yet, by where they belong in that of the study. ``kept``: the points of a simulation
    that were taken from its cache.
    """

    record: ScaleRecord
    files: Mapping[str, bytes]
    kept: int = 0

    @property
    def cells(self) -> Sequence[ScaleCell]:
        """So many ranks of so many threads under a strategy, each."""
        return self.record.cells

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each cell: its step, its speedup and the factors of its efficiency."""
        from steptime.report.scale_table import FACTORS

        return [
            {
                "ranks": cell.ranks,
                "threads": cell.threads,
                "strategy": cell.strategy,
                "step_s": cell.step_time_s,
                "tokens_per_s": cell.tokens_per_s,
                "speedup": cell.speedup,
                "efficiency": cell.efficiency,
                **{factor.field: getattr(cell, factor.field) for factor in FACTORS},
                "bound": cell.bound.sentence,
                "source": cell.source,
            }
            for cell in self.cells
        ]

    def to_pandas(self) -> Any:
        """A DataFrame of ``rows``; UsageError where there is no pandas."""
        return frame_of_rows(self.rows)

    def report(self, path: str | Path) -> Path:
        """Write its page to a file: one of HTML that needs no network."""
        from steptime.report.scale_page import write_scale

        write_scale(Path(path), self.record)
        return Path(path)

    def save(self, folder: str | Path) -> Path:
        """Write a study's folder: run.json, report.html, and a trace of each cell."""
        out = run_folder.create(Path(folder))
        self.written_to(out)
        return out

    def written_to(self, out: Path) -> "Scaling":
        """This study with its name, written to a folder that is there; OSError where that fails."""
        for path, content in self.files.items():
            run_folder.create((out / path).parent)
            write_atomic(out / path, content)
        study = replace(self, record=replace(self.record, run=str(out)))
        run_folder.write_record(out, scale_json(study.record))
        study.report(out / "report.html")
        return study

    def print(self, console: "Console") -> None:
        """Print its table, and what bounds each cell."""
        from steptime.report.scale_table import print_scale

        print_scale(console, self.record)

    def __repr__(self) -> str:
        return text_of(self.print)

    def _repr_html_(self) -> str:
        return html_of(self.print)


def scale(
    model: str | Path | None = None,
    *,
    ranks: int | str | Iterable[int] = (1, 2, 4),
    threads: int | Iterable[int] = 1,
    strategies: str | Sequence[str] = ("replicated", "overlapped"),
    kind: ScalingKind | None = None,
    baseline: str | None = None,
    cluster: Cluster | str | Path | None = None,
    backend: Literal["gloo", "nccl", "steptime"] = "gloo",
    steps: int = 40,
    warmup: int = 5,
    text: str | Path | None = None,
    seed: int = 0,
    timeout: float | str = "1h",
    jobs: int | str = 1,
    cache: str | Path | None = None,
    track: Track = untracked,
    **step: Unpack[OptionsOfAnyRanks],
) -> Scaling:
    """Tell how well a step scales, and what holds it back.

    Without a ``cluster`` a GPT-2 is trained here on all numbers of ``ranks`` with all of
    ``threads``, which take turns where memory allows; with one, any ``model`` is simulated there.
    ``kind``: strong scaling leaves the global batch as it is, the default here; weak scaling that
    of each rank, the default on a cluster. ``baseline``: what all is held against, as ``"1x1"`` or
    ``"2x1:overlapped"``, by default the fewest ranks and threads. ``step``: its other options, as
    ``st.simulate`` takes them.

    Here alone: ``backend``, timed ``steps`` after ``warmup``, ``text`` to train on (by default the
    Python standard library's own sources), ``seed``, and ``timeout`` of all of it. On a cluster
    alone: ``jobs`` and ``cache`` as ``st.sweep`` has them; ``track`` may show progress.

    Raises what ``st.run`` raises, and UsageError where a point cannot be.

    >>> curve = st.scale("gpt2", ranks=[8, 64], strategies="overlapped", cluster="dgx-h100-pod")
    >>> [cell.ranks for cell in curve.cells]
    [8, 64]
    >>> 0.5 < curve.cells[1].efficiency <= 1
    True
    """
    live = LiveOptions(steps=steps, warmup=warmup, seed=seed, backend=backend)
    sweep = SweepOptions(jobs=str(jobs), cache=None if cache is None else Path(cache))
    data = DataOptions(data=None if text is None else Path(text))
    spec = replace(spec_of({**step, "ranks": None}), model="" if model is None else str(model))
    where = None if cluster is None else cluster_of(cluster)
    kind = kind or ("strong" if where is None else "weak")
    grid, spec = grid_of(spec, ranks, threads, strategies, kind, baseline, where, backend)
    if where is None:
        from steptime.api.scaling_here import scaled_here  # which needs torch

        refuse_sweep_options(sweep)
        return Scaling(*scaled_here(grid, live_job(spec, data, live), backend, timeout))
    refuse_live_options(live, data)
    with sweep.executor() as executor:
        return there(grid, with_model(spec), where, executor, sweep.kept(), track)


def grid_of(
    spec: StepSpec,
    ranks: int | str | Iterable[int],
    threads: int | str | Iterable[int],
    strategies: str | Sequence[str],
    kind: ScalingKind,
    baseline: str | None,
    cluster: Cluster | None,
    backend: str = "",
) -> tuple[Grid, StepSpec]:
    """The grid that is asked for, and the step at its points, which has no strategy of its own.

    Raises UsageError where there are no such ranks, threads, strategies or baseline.
    """
    names = names_of(strategy_of_zero(spec.zero, spec.strategy) or strategies, cluster, backend)
    counts = _counts(ranks, "ranks"), _counts(threads, "threads")
    grid = make_grid(*counts, names, kind, baseline)
    return grid, replace(spec, strategy=None, zero=None)


def _counts(numbers: int | str | Iterable[int], option: str) -> tuple[int, ...]:
    if isinstance(numbers, int | str):
        return parse_counts(str(numbers), option)
    return parse_counts(",".join(map(str, numbers)), option)


def with_model(spec: StepSpec) -> StepSpec:
    """The step on a cluster, where a model is that of the demo if none is named."""
    return replace(spec, model=spec.model or "gpt2-124M")


def names_of(names: str | Sequence[str], cluster: Cluster | None, backend: str) -> list[str]:
    """The strategies that are named, with commas or one by one, or all that can run.

    Raises UsageError for one that nobody can train under here, where nothing is simulated.
    """
    if cluster is None:
        return [one.name for one in chosen_strategies(names) or possible(backend)]
    if names == "all":
        return able_strategies(cluster)
    return list(dict.fromkeys(names.split(",") if isinstance(names, str) else names))


def there(
    grid: Grid,
    spec: StepSpec,
    cluster: Cluster,
    executor: "Executor | None",
    cache: "Cache | None",
    track: Track = untracked,
) -> Scaling:
    """Every point simulated on a cluster, by an executor or here; raises as ``scale``."""
    asked = {point: asked_at(point, grid, spec, cluster) for point in grid.points}
    calls = {point: 2 * len(one.cases) for point, one in asked.items()}
    under_way = iter(track(range(sum(calls.values())), "steps"))
    next(under_way, None)  # the first begins; that the next is asked for says that one is done
    work = partial(simulate_at, grid=grid, spec=spec, cluster=cluster)
    swept = points(
        work if executor else partial(work, on_case=lambda: next(under_way, None)),
        list(asked),
        Typed(Simulated),
        executor=executor,
        cache=cache,
        identities=lambda point: identity_of(asked[point], how_at_all(grid)),
        named="scale",
    )
    steps: list[Steps] = []
    files, kept = {}, 0
    for point, done in zip(asked, swept, strict=True):
        if executor or done.kept:
            for _ in range(calls[point]):
                next(under_way, None)
        kept += done.kept
        steps += done.result.steps
        files[f"{done.result.steps[0].folder}/{run_folder.TRACE}"] = done.result.trace
    record = recorded(
        *(grid, steps, _work_there(grid, spec, asked[grid.points[0]])),
        cluster=cluster.name,
        cluster_title=cluster.title,
        cluster_source=cluster.source,
    )
    return Scaling(record, files, kept)


def _work_there(grid: Grid, spec: StepSpec, first: Asked) -> Work:
    """What is simulated, as the first point says: all but what depends on the point."""
    facts = dict(first.facts)
    facts["batch"] = batch_of(spec, grid)
    facts["spec"] = first.facts_of[first.cases[0].name]["spec"]
    return decoded(facts, Work)
