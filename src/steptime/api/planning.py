"""``steptime.plan``: which layout of a model on a cluster is the fastest, and why."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from steptime.api.arguments import ranks_of
from steptime.api.cells import frame_of_rows, html_of, text_of
from steptime.api.pictures import cluster_of
from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.plan.asked import Asked, asked_of
from steptime.plan.options import LayoutOptions, PlanOptions, parse_price, parse_tokens, with_layout
from steptime.plan.planning import Extras, planned
from steptime.points.options import SweepOptions
from steptime.predict.software import software_named
from steptime.report.plan_lines import print_plan
from steptime.runs import run_folder
from steptime.runs.plan import LayoutFigures, PlanRecord, plan_json
from steptime.workloads.models import Model

if TYPE_CHECKING:
    from rich.console import Console

SOFTWARE = "megatron"


@dataclass(frozen=True, eq=False, repr=False)
class PlanResult:
    """A plan: the best layouts of a model on a cluster, each with its account and its memory."""

    record: PlanRecord
    asked: Asked
    extras: Extras

    @property
    def best(self) -> Sequence[LayoutFigures]:
        """The ten fastest layouts that fit, the fastest first; the leanest where none fits."""
        return self.record.best

    @property
    def front(self) -> Sequence[LayoutFigures]:
        """The layouts that none beats in both time and memory, the leanest first."""
        return self.record.front

    @property
    def fits(self) -> bool:
        """Whether any layout fits."""
        return self.record.fits

    @property
    def step_s(self) -> float:
        """The seconds of the best layout's step."""
        return self.best[0].step_time_s

    @property
    def row(self) -> dict[str, Any]:
        """The best layout as a row of a table."""
        return self.rows[0]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each of the best layouts."""
        return [
            {
                **one.axes,
                "sequence_parallel": one.sequence_parallel,
                "schedule": one.schedule,
                "interleave": one.interleave,
                "micro_batch": one.micro_batch,
                "micro_batches": one.micro_batches,
                "recompute": one.recompute,
                "zero": one.zero,
                "precision": one.precision,
                "step_s": one.step_time_s,
                "expected_error": one.expected_error,
                "mfu": one.mfu,
                "tokens_per_s": one.tokens_per_s,
                "memory_bytes": one.memory_bytes,
                "fits": one.fits,
                "bound": one.bound,
                "source": one.source,
            }
            for one in self.best
        ]

    def to_pandas(self) -> Any:
        """A DataFrame of ``rows``; UsageError where there is no pandas."""
        return frame_of_rows(self.rows)

    def explain(self, layout: str) -> "PlanResult":
        """The plan of those layouts alone that are so, as ``tensor=8,pipeline=4``."""
        of = self.asked
        said = with_layout(of.said, layout)
        asked = asked_of(of.model, of.cluster, of.software, of.gpus, said, of.name)
        return PlanResult(planned(asked, self.extras), asked, self.extras)

    def report(self, path: str | Path) -> Path:
        """Write its page to a file: one of HTML that needs no network."""
        from steptime.report.plan_page import write_plan

        write_plan(Path(path), self.record)
        return Path(path)

    def write(self, out: Path) -> None:
        """Write run.json and report.html to a folder that is there; OSError where that fails."""
        run_folder.write_record(out, plan_json(self.record))
        self.report(out / "report.html")

    def save(self, folder: str | Path) -> Path:
        """Write a plan's folder: run.json and report.html."""
        out = run_folder.create(Path(folder))
        replace(self, record=replace(self.record, run=str(out))).write(out)
        return out

    def print(self, console: "Console") -> None:
        """Print its tables, and what they say in sentences."""
        print_plan(console, self.record)

    def __repr__(self) -> str:
        return text_of(self.print)

    def _repr_html_(self) -> str:
        return html_of(self.print)


def plan(
    model: Model | str | Path,
    cluster: Cluster | str | Path,
    *,
    gpus: int | str | Iterable[int] | None = None,
    software: str | None = None,
    tokens: str | float | None = None,
    cost: str | float | None = None,
    simulate: int = 0,
    jobs: int | str = 1,
    cache: str | Path | None = None,
    **layout: Unpack[LayoutOptions],
) -> PlanResult:
    """Search the layouts of a training step on a cluster; the result has the best ten and a page.

    ``model``: a transformer of ``st.model``, its name or file; ``cluster``: one of ``st.cluster``,
    its name or file. ``gpus``: how many, or several numbers; by default all of the cluster, and
    what becomes of it on fewer. ``software``: what drives the devices, by default megatron.
    ``tokens`` of a whole training, as ``"15T"``: the days it takes; ``cost`` of a device for an
    hour, as ``"2.5/h"``: what it costs. ``simulate``: so many of the best layouts, to see how far
    the estimates are from that, with ``jobs`` and ``cache`` as ``st.sweep`` has them. ``layout``:
    what of it is fixed, by the options of the command line: ``tensor``, ``pipeline``, ``zero``,
    ``batch``, ``tokens_per_row``…

    Raises UsageError where what is fixed, the model and the cluster do not fit together. Where no
    layout fits into memory, ``fits`` is False and ``record.remedy`` says what would.

    >>> found = st.plan("llama3-8B", "dgx-h100", batch=128, tokens_per_row=8192)
    >>> found.fits and found.best[0].memory_bytes <= found.record.device_bytes
    True
    >>> found.explain("tensor=8").best[0].axes["tensor"]
    8
    """
    return plan_of(
        model,
        cluster,
        software=software,
        gpus=() if gpus is None else ranks_of(gpus),
        tokens=None if tokens is None else parse_tokens(tokens),
        price=None if cost is None else parse_price(cost),
        simulate=simulate,
        sweep=SweepOptions(jobs=str(jobs), cache=None if cache is None else Path(cache)),
        options=PlanOptions(**layout),
    )


def plan_of(
    model: Model | str | Path,
    cluster: Cluster | str | Path,
    *,
    software: str | None,
    gpus: Sequence[int],
    tokens: float | None,
    price: float | None,
    simulate: int,
    sweep: SweepOptions,
    options: PlanOptions,
) -> PlanResult:
    """The plan of arguments that were parsed; raises as ``plan``."""
    driver = software_named(software or SOFTWARE)
    asked = asked_of(model, cluster_of(cluster), driver, gpus, options)
    if not simulate and sweep != SweepOptions():
        raise UsageError(
            "--jobs and --cache are for layouts that are simulated: say how many, as --simulate 100"
        )
    extras = Extras(tokens=tokens, price=price, simulate=simulate, sweep=sweep)
    return PlanResult(planned(asked, extras), asked, extras)
