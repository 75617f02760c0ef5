"""The second stage: the best layouts simulated, their schedules and calls one by one."""

import time
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from steptime.arrays import Floats
from steptime.errors import UsageError
from steptime.plan.asked import Asked
from steptime.points.codec import Typed
from steptime.points.options import SweepOptions
from steptime.points.sweep import points
from steptime.predict.driven import as_cut, driven, usual_strategy
from steptime.predict.layouts import Layouts
from steptime.runs.plan import Agreement
from steptime.simulate.step import simulate
from steptime.workloads.spec import StepSpec
from steptime.workloads.step import step_of

ALONE = SweepOptions()
"""One layout after the other, in this process."""

_STEPS = 2  # the second is in the steady state


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """Seconds of each layout's step, None of one that was not simulated, and ``why`` not."""

    seconds: tuple[float | None, ...]
    wall_s: float
    why: str = ""


@dataclass(frozen=True)
class Attempt:
    """The seconds of a simulated step, or None and in a sentence why there are none."""

    seconds: float | None
    why: str = ""


def with_simulated(
    asked: Asked, layouts: Layouts, budget_s: float, sweep: SweepOptions = ALONE
) -> Simulated:
    """Simulate layouts until ``budget_s`` seconds have passed, by whoever ``sweep`` asks for."""
    began, why = time.perf_counter(), ""
    found: list[float | None] = []
    with sweep.executor() as executor:
        swept = points(
            partial(_attempt, asked=asked),
            list(layouts),
            Typed(Attempt),
            executor=executor,
            cache=sweep.kept(),
            identities=lambda one: (asked.spec(one), asked.model, asked.cluster, asked.software),
        )
        while len(found) < len(layouts):
            if time.perf_counter() - began > budget_s:
                why = why or f"{budget_s:g} s had passed"
                found += [None] * (len(layouts) - len(found))
                break
            attempt = next(swept).result
            why = why or attempt.why
            found.append(attempt.seconds)
    return Simulated(seconds=tuple(found), wall_s=time.perf_counter() - began, why=why)


def _attempt(layout: np.void, *, asked: Asked) -> Attempt:
    one = np.array([layout])
    try:
        made = step_of(_spec(asked, layout), asked.cluster, model=asked.model)
        step = as_cut(made, asked.software)
        program = driven(step.program, asked.model, one, asked.machine)
        done = simulate(program, asked.cluster, fidelity="collective", steps=_STEPS)
    except UsageError as error:
        return Attempt(None, str(error))
    return Attempt(float(done.step_s[-1]))


def _spec(asked: Asked, layout: np.void) -> StepSpec:
    """The step of a layout, with its calls behind computing where the software puts them there."""
    spec = asked.spec(layout)
    return replace(spec, zero=None, strategy=usual_strategy(asked.software, spec.zero or 0))


def agreement(estimated: Floats, simulated: Simulated) -> Agreement | None:
    """How far estimates are from simulations; None where nothing was simulated."""
    pairs = [(e, s) for e, s in zip(estimated, simulated.seconds, strict=False) if s]
    if not pairs:
        return None
    apart = np.array([abs(e / s - 1) for e, s in pairs])
    return Agreement(
        layouts=len(pairs),
        median=float(np.median(apart)),
        largest=float(apart.max()),
        wall_s=simulated.wall_s,
        left_out=len(simulated.seconds) - len(pairs),
        why=simulated.why,
    )
