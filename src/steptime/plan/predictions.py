"""Predictions of measured rows: all of a model on a machine at a time."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats, Longs
from steptime.plan.express import Case
from steptime.predict.estimate import estimate
from steptime.predict.layouts import PRECISIONS, Layouts, ranks_of
from steptime.predict.machine import Machine
from steptime.predict.memory import memory
from steptime.predict.possible import cannot_run, reasons_of

Change: TypeAlias = Callable[[Machine], Machine]
"""What is changed of the machine of a case before it is predicted: its software or its device."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Predicted:
    """What is predicted of one case: the way of running it that is the fastest of those that fit.

    ``terms``: seconds of the step by term. ``mfu``: model FLOP/s in parts of the peak.
    ``memory_bytes``: at its peak, as the framework's logs have it; ``fits``: whether the
    device has them, with what lies outside the allocator, and the layout can run at all;
    ``cannot``: why it cannot, empty where it can.
    """

    layout: np.void
    terms: Mapping[str, float]
    step_s: float
    mfu: float
    memory_bytes: float
    fits: bool
    cannot: str


def predicted(cases: Sequence[Case], change: Change | None = None) -> list[Predicted]:
    """What is predicted of each case, in order, on the machines that ``change`` makes of theirs.

    Raises UsageError where a device has no rate for a precision.
    """
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, case in enumerate(cases):
        groups[id(case.model), id(case.machine)].append(place)
    found: dict[int, Predicted] = {}
    for places in groups.values():
        machine = cases[places[0]].machine
        several = _group([cases[place] for place in places], change(machine) if change else machine)
        found |= dict(zip(places, several, strict=True))
    return [found[place] for place in range(len(cases))]


def _group(cases: Sequence[Case], machine: Machine) -> list[Predicted]:
    """Of cases with one model and machine."""
    model = cases[0].model
    layouts: Layouts = np.concatenate([case.layouts for case in cases])
    account = estimate(model, layouts, machine)
    kept = memory(model, layouts, machine.software)
    held, step_s = kept.logged, account.step_s
    wrong = cannot_run(model, layouts, machine.software)
    fits = kept.fits(machine.device) & (wrong == 0)
    cannot = reasons_of(wrong)
    ends = np.cumsum([len(case.layouts) for case in cases])
    ways = np.split(np.arange(len(layouts)), ends[:-1])
    chosen = [_fastest(way, step_s, fits) for way in ways]
    peaks = [machine.device.flops.get(name, np.nan) for name in PRECISIONS]
    flops = {tokens: model.flops_per_token(int(tokens)) for tokens in np.unique(layouts["tokens"])}
    found = []
    for case, place in zip(cases, chosen, strict=True):
        layout = layouts[place]
        peak = peaks[int(layout["precision"])] * float(ranks_of(layout))
        work = flops[layout["tokens"]] * case.tokens
        found.append(
            Predicted(
                layout=layout,
                terms={name: float(one[place]) for name, one in account.terms.items()},
                step_s=float(step_s[place]),
                mfu=float(work / (step_s[place] * peak)),
                memory_bytes=float(held[place]),
                fits=bool(fits[place]),
                cannot=cannot[place],
            )
        )
    return found


def _fastest(ways: Longs, step_s: Floats, fits: NDArray[np.bool_]) -> int:
    """The place of the fastest of some ways, among those that fit where any does."""
    fitting = ways[fits[ways]]
    among = fitting if fitting.size else ways
    return int(among[np.argmin(step_s[among])])
