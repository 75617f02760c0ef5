"""Validation: predictions beside what was measured, row by row and source by source."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from steptime.plan.express import Case, Unexpressed, expressed
from steptime.plan.metrics import balanced_accuracy, errors, one_rate, over_cells
from steptime.plan.predictions import Change, Predicted, predicted
from steptime.plan.recipes import recipe_of
from steptime.plan.rows import Row, read_rows, shipped_rows
from steptime.predict.expected import (
    COLUMNS,
    ExpectedError,
    nearest,
    shipped_errors,
    shipped_steps,
    step_of,
)
from steptime.predict.layouts import PRECISIONS

_GIB = 1 << 30
_LAYOUT = (
    *("data", "tensor", "pipeline", "context", "expert"),
    *("interleave", "micro_batches", "rows", "zero"),
)
LEAST_MFU = 10.0
"""Percent of the peak: a step that was printed with less counts for ranks, not for mean errors.

Sweeps have runs that went wrong, at 0.6 % of the peak; sources that print no MFU count whole.
"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Judged:
    """A row that was predicted."""

    case: Case
    predicted: Predicted

    @property
    def row(self) -> Row:
        """What was measured."""
        return self.case.row

    @property
    def error(self) -> float | None:
        """The signed relative error of the step's time; None where none was measured."""
        return self.predicted.step_s / self.row.step_s - 1 if self.row.step_s else None

    @cached_property
    def expected(self) -> ExpectedError | None:
        """The error to expect of it, from other rows; None where none is near."""
        return _expected(self)

    @property
    def counts(self) -> bool:
        """Whether it counts for mean errors."""
        printed = self.row.mfu_pct
        return self.error is not None and (printed is None or printed >= LEAST_MFU)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How far the predictions of some rows are off; None where nothing tells.

    ``rows``: those with a measured time that were predicted. ``judged`` of them were not printed
    below LEAST_MFU and count for ``mape``, ``median_ape``, ``bias`` (the mean signed error) and
    ``baseline_mape``, that of FLOP / (GPUs × c), with one c a GPU and precision fitted on these
    very rows; ``mape_all`` is over all. ``spearman`` is the median over cells of one model and
    number of GPUs, of which there are ``cells``; regret is of throughput there. ``unexpressed``:
    rows that are not predicted. ``memory_mape``: of measured peaks.
    """

    rows: int
    judged: int
    unexpressed: int
    mape: float | None
    mape_all: float | None
    median_ape: float | None
    bias: float | None
    baseline_mape: float | None
    cells: int
    spearman: float | None
    regret_mean: float | None
    regret_max: float | None
    oom_balanced_accuracy: float | None
    memory_mape: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Validation:
    """Predictions beside measured rows, in the order of the rows.

    ``name``: of the file of rows, empty for those that are shipped.
    """

    name: str
    rows: tuple[Judged | Unexpressed, ...]

    @property
    def judged(self) -> list[Judged]:
        """The rows that were predicted."""
        return [one for one in self.rows if isinstance(one, Judged)]

    @property
    def unexpressed(self) -> list[Unexpressed]:
        """The rows that were not, each with the reason."""
        return [one for one in self.rows if isinstance(one, Unexpressed)]

    @cached_property
    def summary(self) -> Mapping[str, Summary]:
        """How far predictions are off by source and GPU, in the order of the rows."""
        groups: dict[str, list[Judged | Unexpressed]] = defaultdict(list)
        for one in self.rows:
            groups[one.row.group].append(one)
        return {name: summary_of(members) for name, members in groups.items()}

    def json(self) -> dict[str, Any]:
        """Rows and summary, as ``--json`` prints them."""
        return {
            "verb": "plan",
            "rows": [_row_json(number, one) for number, one in enumerate(self.rows)],
            "summary": {name: asdict(one) for name, one in self.summary.items()},
        }


def validate(path: Path | None = None) -> Validation:
    """Predict every row of a file, or of those that are shipped.

    Raises UsageError where the file is wrong.
    """
    rows = shipped_rows() if path is None else read_rows(path)
    return validation_of(expressed(rows), name="" if path is None else str(path))


def validation_of(
    cases: Sequence[Case | Unexpressed], *, name: str = "", change: Change | None = None
) -> Validation:
    """Predict cases, on the machines that ``change`` makes of theirs."""
    several = [one for one in cases if isinstance(one, Case)]
    found = iter(predicted(several, change))
    return Validation(
        name=name,
        rows=tuple(
            Judged(case=one, predicted=next(found)) if isinstance(one, Case) else one
            for one in cases
        ),
    )


def summary_of(members: Sequence[Judged | Unexpressed]) -> Summary:
    """How far the predictions of some rows are off."""
    known = [one for one in members if isinstance(one, Judged)]
    timed = [one for one in known if one.row.step_s]
    counted = [one for one in timed if one.counts]
    off = np.array([one.error for one in counted], float)
    cells = over_cells(
        [(one.row.group, one.row.model, one.row.n_gpus) for one in timed],
        np.array([one.case.tokens / one.predicted.step_s for one in timed]),
        np.array([one.case.tokens / (one.row.step_s or 1) for one in timed]),
    )
    decided = [one for one in known if one.row.step_s or one.row.crashed]
    sized = [one for one in known if one.row.mem_gib]
    return Summary(
        rows=len(timed),
        judged=len(counted),
        unexpressed=len(members) - len(known),
        mape=_mean(np.abs(off)),
        mape_all=_mean(np.abs(np.array([one.error for one in timed], float))),
        median_ape=float(np.median(np.abs(off))) if off.size else None,
        bias=_mean(off),
        baseline_mape=_baseline(counted),
        cells=cells.cells,
        spearman=cells.spearman,
        regret_mean=cells.regret_mean,
        regret_max=cells.regret_max,
        oom_balanced_accuracy=balanced_accuracy(
            np.array([one.predicted.fits for one in decided], bool),
            np.array([not one.row.crashed for one in decided], bool),
        ),
        memory_mape=_mean(
            np.abs(
                errors(
                    np.array([one.predicted.memory_bytes for one in sized]),
                    np.array([(one.row.mem_gib or 1) * _GIB for one in sized]),
                )
            )
        ),
    )


def _mean(values: Any) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _baseline(counted: Sequence[Judged]) -> float | None:
    """The mean error of one rate a GPU and precision, fitted on these rows."""
    groups: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for one in counted:
        precision = PRECISIONS[int(one.predicted.layout["precision"])]
        groups[one.row.gpu, precision].append(one)
    off: list[float] = []
    for members in groups.values():
        work = np.array(
            [one.predicted.mfu * one.predicted.step_s for one in members]
        )  # of the peak, which all have
        measured = np.array([one.row.step_s for one in members], float)
        off += list(np.abs(errors(work / one_rate(work, measured), measured)))
    return _mean(off)


def _row_json(number: int, one: Judged | Unexpressed) -> dict[str, Any]:
    told: dict[str, Any] = {"row": number, "expressible": isinstance(one, Judged)}
    told |= {"model": one.row.model, "gpus": one.row.n_gpus, "measured_s": one.row.step_s}
    if isinstance(one, Unexpressed):
        nothing = ("layout", "step_time_s", "mfu", "memory_bytes", "fits", "expected_error")
        return told | {"why": one.why} | dict.fromkeys(nothing)
    return told | {
        "why": "; ".join(filter(None, (one.predicted.cannot, *one.case.assumed))),
        "layout": {name: int(one.predicted.layout[name]) for name in _LAYOUT},
        "step_time_s": one.predicted.step_s,
        "mfu": one.predicted.mfu,
        "memory_bytes": one.predicted.memory_bytes,
        "fits": one.predicted.fits,
        "expected_error": one.expected.mape if one.expected else None,
    }


def step_with_error(one: Judged) -> dict[str, Any]:
    """What is kept of a measured step, and of how far its prediction is off."""
    case, layout = one.case, one.predicted.layout
    return step_of(case.model, layout, case.machine) | {
        "parameters": f"{case.model.parameters:.4g}",
        "error": f"{one.error or 0.0:.4f}",
        "source": recipe_of(one.row.source).title,
    }


@cache
def _kept() -> dict[tuple[Any, ...], int]:
    """The places of the errors that ship, by all that is kept of their steps."""
    return {tuple(step.values()): place for place, step in enumerate(shipped_steps())}


def _expected(one: Judged) -> ExpectedError | None:
    """The error expected of a row's prediction: of other rows than itself."""
    step = step_with_error(one)
    itself = _kept().get(tuple(str(step[name]) for name in COLUMNS)) if one.row.step_s else None
    return nearest(shipped_errors(), step, but=itself)
