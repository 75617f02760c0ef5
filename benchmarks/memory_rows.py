"""Judges the memory of a rank, and what cannot run, by the shipped rows of measured steps.

    python benchmarks/memory_rows.py            errors by model, and what crashed
    python benchmarks/memory_rows.py --fit      the same, and what the rows make of nanotron's
                                                footprint: from all, and from each model alone
    python benchmarks/memory_rows.py --rows N   and the N rows that are the furthest off

A peak is compared with what the framework's logs would print. A row that crashed is right if
it cannot run or does not fit; where the same layout was measured too, no prediction can be right
about both.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from steptime.plan.express import Case, expressed
from steptime.plan.rows import shipped_rows
from steptime.predict.memory import RankMemory, memory
from steptime.predict.possible import cannot_run
from steptime.predict.software import Footprint, Software, software_named

_GIB = 1 << 30
FITTED = {"copies": 6.0, "streams": 1.5, "workspace_bytes": 0.2e9}
"""The parameters of nanotron's footprint that its sweep is to tell, and where the fit begins."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one model on one machine that have a peak, or crashed."""

    cases: tuple[Case, ...]

    @property
    def measured(self) -> NDArray[np.float64]:
        """GiB a rank; nan of a row that crashed."""
        return np.array([case.row.mem_gib or np.nan for case in self.cases])

    def memory(self, software: Software | None = None) -> RankMemory:
        """What is predicted of the first way of each."""
        layouts = np.concatenate([case.layouts[:1] for case in self.cases])
        first = self.cases[0]
        return memory(first.model, layouts, software or first.machine.software)

    def errors(self, software: Software | None = None) -> NDArray[np.float64]:
        """Predicted to measured, less 1, of those that were measured."""
        measured = self.measured
        known = ~np.isnan(measured)
        return np.asarray(self.memory(software).logged[known] / _GIB / measured[known] - 1)

    def runs(self) -> NDArray[np.bool_]:
        """Whether each is predicted to run."""
        first = self.cases[0]
        layouts = np.concatenate([case.layouts[:1] for case in self.cases])
        able = cannot_run(first.model, layouts, first.machine.software) == 0
        return np.asarray(able & self.memory().fits(first.machine.device))


def rows_by_model() -> list[Rows]:
    """All shipped rows with a peak or a crash, by source, model and machine."""
    groups: dict[tuple[str, str, int, str], list[Case]] = defaultdict(list)
    for case in expressed(shipped_rows()):
        if isinstance(case, Case) and (case.row.mem_gib or case.row.crashed):
            key = (case.row.source, case.row.model, id(case.machine), case.model.name)
            groups[key].append(case)
    return [Rows(tuple(cases)) for cases in groups.values()]


def fit(groups: Sequence[Rows]) -> Footprint:
    """Nanotron's footprint with which the mean absolute error of these rows is the least."""
    software = software_named("nanotron")
    start = np.array(list(FITTED.values()))

    def made(x: NDArray[np.float64]) -> Software:
        values: dict[str, Any] = dict(zip(FITTED, (x * start).tolist(), strict=True))
        return replace(software, footprint=replace(software.footprint, **values))

    def loss(x: NDArray[np.float64]) -> float:
        if (x < 0).any():
            return np.inf
        return float(np.abs(np.concatenate([one.errors(made(x)) for one in groups])).mean())

    found = minimize(loss, np.ones(len(start)), method="Nelder-Mead", options={"xatol": 1e-3})
    return made(found.x).footprint


def _summary(errors: NDArray[np.float64]) -> str:
    absolute = np.abs(errors)
    return (
        f"{len(errors)} rows, error {100 * absolute.mean():.1f} %, median "
        f"{100 * np.median(absolute):.1f} %, bias {100 * np.median(errors):+.1f} %"
    )


def _print_crashes(groups: Sequence[Rows]) -> None:
    crashed = np.concatenate([[c.row.crashed for c in one.cases] for one in groups]).astype(bool)
    runs = np.concatenate([one.runs() for one in groups])
    keys = [(case.model.name, case.layouts[0].tobytes()) for one in groups for case in one.cases]
    both = {k for k, c in zip(keys, crashed, strict=True) if c} & {
        k for k, c in zip(keys, crashed, strict=True) if not c
    }
    kept, caught = runs[~crashed].mean(), (~runs[crashed]).mean()
    certain = crashed & ~np.array([key in both for key in keys])
    print(
        f"crashed: {crashed.sum()} rows, caught {100 * caught:.1f} %; measured: "
        f"{(~crashed).sum()} rows, kept {100 * kept:.1f} %; balanced accuracy "
        f"{50 * (kept + caught):.1f} %, without the {(crashed & ~certain).sum()} that were "
        f"measured too {50 * (kept + (~runs[certain]).mean()):.1f} %"
    )


def _print_worst(groups: Sequence[Rows], count: int) -> None:
    found = []
    for one in groups:
        cases = [case for case in one.cases if case.row.mem_gib]
        found += list(zip(one.errors(), cases, strict=True))
    for error, case in sorted(found, key=lambda pair: -abs(pair[0]))[:count]:
        row = case.row
        print(
            f"  {100 * error:+.0f} % of {row.mem_gib} GiB: {row.model} dp {row.dp} tp {row.tp} "
            f"pp {row.pp} micro-batch {row.micro_batch} {row.zero_fsdp} MFU {row.mfu_pct}"
        )


def _print_fits(groups: Sequence[Rows]) -> None:
    software = software_named("nanotron")
    own = [one for one in groups if one.cases[0].machine.software.name == "nanotron"]
    for label, of, on in _splits(own):
        footprint = fit(of)
        told = ", ".join(f"{name} {getattr(footprint, name):.3g}" for name in FITTED)
        errors = np.concatenate([one.errors(replace(software, footprint=footprint)) for one in on])
        print(f"{label}: {told}; {_summary(errors)}")


def _splits(groups: Sequence[Rows]) -> list[tuple[str, list[Rows], list[Rows]]]:
    everything = [("all, on all", list(groups), list(groups))]
    count: Callable[[Rows], int] = lambda one: len(one.cases)  # noqa: E731 - a key
    large = sorted(groups, key=count)[-2:]
    for one in large:
        rest = [other for other in groups if other is not one]
        name = one.cases[0].row.model
        everything.append((f"{name}, on the others", [one], rest))
    return everything


def main() -> None:
    """Print the errors by model, what crashed and, if asked for, what a fit makes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--rows", type=int, default=0)
    asked = parser.parse_args()
    groups = rows_by_model()
    for one in groups:
        errors = one.errors()
        if len(errors):
            row = one.cases[0].row
            print(f"{row.source[:30]} {row.model} {row.gpu}: {_summary(errors)}")
    sweep = [one for one in groups if len(one.cases) > 100]
    _print_crashes(sweep)
    _print_worst(groups, asked.rows)
    if asked.fit:
        _print_fits(groups)


if __name__ == "__main__":
    main()
