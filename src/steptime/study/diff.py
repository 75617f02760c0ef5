"""Did the step time change: two runs, or several of each, and how sure that is.

``ratios`` tells by which method, and why.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from steptime.arrays import Floats
from steptime.errors import UsageError
from steptime.ratios import (
    CONFIDENCE,
    DECISION,
    LEAST_PAIRS,
    LEAST_STEPS,
    POWER,
    RUN_TO_RUN,
    Estimate,
    as_ratio,
    blocks,
    independent,
    paired,
)
from steptime.runs.host_links import HostLink
from steptime.runs.same_work import check_same_work, told_differences
from steptime.study.diff_runs import COLUMNS, PHASES, TimedRun
from steptime.study.slowed_links import slowed_record
from steptime.timeline import EXPOSED

_ROUNDING = 1e-9
"""Relative: simulated steps that differ by less are the same."""


def _of_each(confidence: float) -> float:
    """Bonferroni: for the intervals of all phases together to hold with this confidence.

    Those of the parts of exposed communication, which are as many, hold together likewise.
    """
    return 1 - (1 - confidence) / len(PHASES)


@dataclass(frozen=True)
class Diff:
    """How much longer B's step takes than A's.

    ``change``: of the logarithm of the step time; ``phases``: of each phase, in seconds, none where
    a trace kept no steps. ``step_s`` and ``phase_s``, shape (2, 8), are A's and B's, in the order
    of COLUMNS.
    """

    a: tuple[TimedRun, ...]
    b: tuple[TimedRun, ...]
    method: str
    change: Estimate
    phases: tuple[Estimate, ...]
    step_s: tuple[float, float]
    phase_s: Floats

    @property
    def ratio(self) -> float:
        """B's step time over A's."""
        return math.exp(self.change.center)

    @property
    def different(self) -> bool:
        """Whether it is safe to say that they differ, with the confidence DECISION."""
        if self.a[0].source == "simulated":
            return abs(self.change.center) > _ROUNDING
        return self.change.excludes_zero(DECISION)

    def sees(self, part: float) -> bool:
        """Whether a step longer by a part of A's would nearly always be told, with so many runs."""
        return as_ratio(self.change.least_seen(DECISION, POWER)) - 1 <= part

    def slower_by_more(self, limit: float) -> bool:
        """Whether B is different and takes longer by more than a part of A's step.

        By the best estimate, not by the lower end of its interval: of changes just over the limit
        that would let pass nearly all.
        """
        return self.different and self.ratio > 1 + limit

    def record(self) -> dict[str, Any]:
        """What is printed as JSON, and left in run.json."""
        low, high = self.change.interval(CONFIDENCE)
        surely = self.change.interval(DECISION)
        found = dict(self._phase_records())
        return {
            "verb": "diff",
            "source": self.a[0].source,
            "ratio": self.ratio,
            "ci95": [as_ratio(low), as_ratio(high)],
            "different": self.different,
            "ci_of_different": {"confidence": DECISION, "ci": [as_ratio(end) for end in surely]},
            "least_seen": as_ratio(self.change.least_seen(DECISION, POWER)) - 1,
            "method": self.method,
            "step_time_s": {"a": self.step_s[0], "b": self.step_s[1]},
            "phases": {name: found[name] for name in PHASES if name in found},
            "exposed": {name: found[name] for name in EXPOSED if name in found},
            "a": [_run_record(run) for run in self.a],
            "b": [_run_record(run) for run in self.b],
            "slowed_links": slowed_record(*(_carried(side) for side in (self.a, self.b))),
            "differs": list(told_differences(*([r.facts for r in s] for s in (self.a, self.b)))),
            **{name: self.a[0].facts.work.get(name) for name in ("model", "ranks", "precision")},
        }

    def _phase_records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each phase and part that both sides tell, with its name."""
        sides = self.phase_s[:, : len(PHASES)].sum(axis=1)
        whole = float(sides[1] - sides[0])
        for name, times, estimate in zip(COLUMNS, self.phase_s.T, self.phases, strict=False):
            a, b = times.tolist()
            low, high = estimate.interval(_of_each(CONFIDENCE))
            if math.isfinite(b - a):
                yield (
                    name,
                    {
                        "a_s": a,
                        "b_s": b,
                        "difference_s": b - a,
                        "ci95_s": [low, high],
                        "share": (b - a) / whole if self.different and whole else None,
                        "different": estimate.excludes_zero(_of_each(DECISION)),
                    },
                )


def _carried(side: Iterable[TimedRun]) -> list[HostLink]:
    return [link for run in side for link in run.host_links]


def _run_record(run: TimedRun) -> dict[str, Any]:
    return {
        "run": str(run.path),
        "git_revision": run.facts.told["git_revision"],
        "time": run.time,
        "step_time_s": run.median,
        "steps": int(run.step_s.size),
        "steps_with_phases": int(run.phases.shape[0]),
    }


def diff(
    a: Sequence[TimedRun],
    b: Sequence[TimedRun],
    *,
    in_pairs: bool = False,
    run_to_run: float = RUN_TO_RUN,
) -> Diff:
    """Compare the runs ``a`` with the runs ``b``.

    ``in_pairs``: they took turns with one command, the first of each and so on. ``run_to_run``:
    standard deviation of the medians of equal runs, relative, read where there is one run of each.

    Raises UsageError where they did not do the same work, or have too few steps for an interval.
    """
    runs = [(str(run.path), run.facts) for run in (*a, *b)]
    check_same_work(runs, same_command=in_pairs)
    if a[0].source == "simulated":
        return _answer(a, b, "simulated: both step times are exact", _exactly)
    if in_pairs and len(a) == len(b) > 1:
        told = f"{len(a)} pairs of runs that took turns, t on their medians"
        return _answer(a, b, told, paired)
    if len(a) + len(b) > 2:
        told = f"{len(a)} and {len(b)} runs, Welch's t on their medians"
        return _answer(a, b, told, independent)
    return _one_of_each(a[0], b[0], run_to_run)


def compared(
    pairs: Iterable[tuple[TimedRun, TimedRun]], see: float | None, limit_s: float = math.inf
) -> Diff:
    """Compare runs that take turns as they come: all, or until there are enough.

    ``see``: enough are those that would nearly always tell a difference of this part of A's step.
    ``limit_s``: then these two pairs or more are all, whatever they tell.
    Raises UsageError as ``diff`` does.
    """
    a: list[TimedRun] = []
    b: list[TimedRun] = []
    began = perf_counter()
    for one, other in pairs:
        a.append(one)
        b.append(other)
        if see is not None and len(a) >= LEAST_PAIRS and diff(a, b, in_pairs=True).sees(see):
            break
        if len(a) >= 2 and perf_counter() - began >= limit_s:
            break
    return diff(a, b, in_pairs=True)


def _exactly(a: Floats, b: Floats) -> Estimate:
    return Estimate(float(b.mean() - a.mean()), 0.0, math.inf)


def _answer(
    a: Sequence[TimedRun],
    b: Sequence[TimedRun],
    method: str,
    compare: Callable[[Floats, Floats], Estimate],
) -> Diff:
    logs = [np.log([run.median for run in side]) for side in (a, b)]
    step_s = (math.exp(float(logs[0].mean())), math.exp(float(logs[1].mean())))
    phases: tuple[Estimate, ...] = ()
    phase_s = np.zeros((2, len(COLUMNS)))
    if all(run.phases.size for run in (*a, *b)):
        rows = [np.stack([run.phase_s for run in side]) for side in (a, b)]  # (runs, 8)
        # The phases of a side divide its step, a geometric mean, which is a hair shorter.
        whole = [of[:, : len(PHASES)].sum(axis=1).mean() for of in rows]
        scaled = [of * step / all_ for of, step, all_ in zip(rows, step_s, whole, strict=True)]
        phase_s = np.stack([of.mean(axis=0) for of in scaled])
        phases = tuple(compare(scaled[0][:, p], scaled[1][:, p]) for p in range(len(COLUMNS)))
    return Diff(tuple(a), tuple(b), method, compare(*logs), phases, step_s, phase_s)


def _one_of_each(a: TimedRun, b: TimedRun, run_to_run: float) -> Diff:
    for run in (a, b):
        if run.step_s.size < LEAST_STEPS:
            raise UsageError(
                f"{run.path} has {run.step_s.size} timed step{'s' * (run.step_s.size != 1)} and an "
                f"interval needs {LEAST_STEPS}: run more --steps, or several runs of each"
            )
    logs = [np.log([np.median(block) for block in blocks(run.step_s)]) for run in (a, b)]
    change = independent(logs[0], logs[1], center=math.log(b.median / a.median), floor=run_to_run)
    phases: tuple[Estimate, ...] = ()
    phase_s = np.zeros((2, len(COLUMNS)))
    if min(len(a.phases), len(b.phases)) >= LEAST_STEPS:
        phase_s = np.stack([a.phase_s, b.phase_s])
        rows = [np.stack([block.mean(axis=0) for block in blocks(run.phases)]) for run in (a, b)]
        # As if what varies from run to run fell anywhere: a variance in proportion to the time.
        floors = run_to_run * np.sqrt(a.phase_s * a.median)
        phases = tuple(
            independent(
                rows[0][:, p],
                rows[1][:, p],
                center=float(phase_s[1, p] - phase_s[0, p]),
                floor=float(floors[p]),
            )
            for p in range(len(COLUMNS))
        )
    told = (
        f"one run of each: blocks of steps, and {100 * run_to_run:g} % from run to run, "
        "which one run cannot show"
    )
    return Diff((a,), (b,), told, change, phases, (a.median, b.median), phase_s)
