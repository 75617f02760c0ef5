"""A plan: the search on each number of GPUs, and the record of what it found."""

import time
from dataclasses import dataclass, replace

import numpy as np

from steptime.errors import UsageError
from steptime.plan.asked import Asked
from steptime.plan.figures import figures_of
from steptime.plan.remedy import remedy
from steptime.plan.search import Cells, Found, search
from steptime.plan.simulated import ALONE, agreement, with_simulated
from steptime.plan.why import why_second
from steptime.points.options import SweepOptions
from steptime.runs.environment import here
from steptime.runs.plan import LayoutFigures, PlanCell, PlanRecord, Training
from steptime.runs.utilisation import formula_of

TOLD = 10
"""Layouts that a plan tells of as the best."""

_DAY = 86400.0


@dataclass(frozen=True, kw_only=True)
class Extras:
    """What a plan tells besides.

    ``tokens`` of a whole training; ``price`` of a device for an hour; ``simulate``: so many of the
    best layouts, for ``budget_s`` seconds at most, by whoever ``sweep`` asks for.
    """

    tokens: float | None = None
    price: float | None = None
    simulate: int = 0
    budget_s: float = 60.0
    sweep: SweepOptions = ALONE


def planned(asked: Asked, extras: Extras) -> PlanRecord:
    """The plan that was asked for; raises UsageError where nothing can be laid out so."""
    began = time.perf_counter()
    most, *fewer = asked.gpus
    found = search(asked.model, asked.layouts(most), asked.machine)
    best = figures_of(asked, found.layouts[:TOLD], extras.price)
    if extras.tokens is not None and extras.tokens < asked.batch * asked.tokens:
        raise UsageError(
            f"--tokens is {extras.tokens:g}, and one step reads {asked.batch * asked.tokens:,}: "
            "write the tokens of the whole training, or of a row as --tokens-per-row"
        )
    run = PlanRecord(
        model=asked.name,
        parameters=asked.model.parameters,
        cluster=asked.cluster.name,
        cluster_title=asked.cluster.title,
        device=asked.cluster.device.name,
        device_bytes=int(asked.cluster.device.memory),
        peak_flops={name: asked.cluster.device.flops[name] for name in asked.precisions},
        watts=asked.cluster.device.watts,
        software=asked.software.name,
        software_title=asked.software.title,
        gpus=most,
        batch=asked.batch,
        tokens_per_row=asked.tokens,
        flops_per_token=asked.model.flops_per_token(asked.tokens),
        formula=formula_of(asked.model),
        fits=found.fits,
        remedy="" if found.fits else remedy(asked, most),
        best=best,
        why=why_second(best[0], best[1]) if found.fits and len(best) > 1 else "",
        searched=found.searched,
        fitting=found.fitting,
        estimated=found.estimated,
        front=figures_of(asked, found.layouts[found.front], extras.price) if found.fits else [],
        front_gpus=_by_gpus(asked, best[0], fewer, extras.price),
        cells=_cells(found.cells),
        price=extras.price,
        training=_training(asked, best[0], extras),
        wall_s=0.0,
        environment=here(),
    )
    if extras.simulate and found.fits:
        run = _simulated(asked, found, run, extras)
    return replace(run, wall_s=time.perf_counter() - began)


def _simulated(asked: Asked, found: Found, run: PlanRecord, extras: Extras) -> PlanRecord:
    """The plan with the simulations of its best layouts, as far as the budget goes."""
    simulated = with_simulated(
        asked, found.layouts[: extras.simulate], extras.budget_s, extras.sweep
    )
    best = [
        replace(one, simulated_step_time_s=seconds)
        for one, seconds in zip(run.best, [*simulated.seconds, *[None] * TOLD], strict=False)
    ]
    return replace(run, best=best, agreement=agreement(found.step_s, simulated))


def _by_gpus(
    asked: Asked, best: LayoutFigures, fewer: list[int], price: float | None
) -> list[LayoutFigures]:
    """The best layout on each number of GPUs, the fewest first; none where nothing fits."""
    found = [best] if best.fits else []
    for count in fewer:
        try:
            layouts = asked.layouts(count)
        except UsageError:  # what is fixed, or the batch, does not divide among so many
            continue
        there = search(asked.model, layouts, asked.machine, best=1, told=False)
        if there.fits:
            found += figures_of(asked, there.layouts[:1], price)
    return found[::-1]


def _cells(cells: Cells) -> list[PlanCell]:
    return [
        PlanCell(
            tensor=int(tensor),
            pipeline=int(pipeline),
            step_time_s=float(step) if np.isfinite(step) else None,
            memory_bytes=round(float(kept)),
            layouts=int(count),
        )
        for tensor, pipeline, step, kept, count in zip(
            cells.tensor,
            cells.pipeline,
            cells.step_s,
            cells.memory_bytes,
            cells.layouts,
            strict=True,
        )
    ]


def _training(asked: Asked, best: LayoutFigures, extras: Extras) -> Training | None:
    if extras.tokens is None:
        return None
    steps = extras.tokens / (asked.batch * asked.tokens)
    return Training(
        tokens=extras.tokens,
        steps=steps,
        days=steps * best.step_time_s / _DAY,
        cost=None if best.cost is None else best.cost * steps,
        joules=None if best.joules is None else best.joules * steps,
    )
