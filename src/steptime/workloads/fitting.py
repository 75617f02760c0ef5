"""What would fit: the nearest changes of a step whose memory, computed anew, a device has.

The changes are options that a person can add to the command as it is. First come those that ask for
no more ranks: other axes, and what saves memory at the cost of time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations, product
from math import inf
from operator import or_
from typing import Any, TypeAlias

from steptime.errors import UsageError
from steptime.workloads.models import Model
from steptime.workloads.spec import StepSpec
from steptime.workloads.step import memory_of_step
from steptime.workloads.sync import strategies_of_zero, sync_named

Change: TypeAlias = Mapping[str, Any]
"""Fields of a StepSpec with the values that they get."""

_FACTORS = (1, 2, 4, 8, 16)
_MOST_SAVINGS = 2
_ENOUGH = 2


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A step that fits: by these ``options`` on so many ``ranks``, each with ``total`` bytes."""

    options: str
    ranks: int
    total: int


@dataclass(frozen=True, kw_only=True)
class Tight:
    """A step that does not fit: as it was asked for, and ``full`` with its defaults filled in.

    ``host_devices`` of ``device_bytes`` each: tensor parallelism stays within a host. ``said``:
    what of ``spec`` the options are to repeat, since the command does not say it.
    """

    spec: StepSpec
    full: StepSpec
    model: Model
    device_bytes: float
    host_devices: int
    said: Change


def nearest_fits(tight: Tight) -> list[Fit]:
    """One or two changes with which it fits, on the fewest ranks, by the fewest options."""
    ranks = tight.full.ranks or 1
    for times in _FACTORS:
        more = {"ranks": ranks * times} if times > 1 else {}
        fits = (_fit(tight, {**more, **axes}) for axes in _axes(tight))
        found = [fit for fit in fits if fit]
        if found:
            return sorted(found, key=lambda fit: fit.options.count("--"))[:_ENOUGH]
    return []


def _fit(tight: Tight, axes: Change) -> Fit | None:
    """The fewest savings with which these ranks along these axes fit, if any do."""
    savings = list(_savings(tight, axes))
    most: Change = reduce(or_, savings, dict(axes))  # the last of a kind saves the most
    if _kept(tight, most) > tight.device_bytes:
        return None
    for count in range(_MOST_SAVINGS + 1):
        for several in combinations(savings, count):
            change: Change = reduce(or_, several, dict(axes))
            total = _kept(tight, change)
            if total <= tight.device_bytes:
                ranks = change.get("ranks", tight.full.ranks)
                return Fit(options=_written(tight, change), ranks=ranks, total=int(total))
    return None


def _axes(tight: Tight) -> Iterator[Change]:
    """Sizes along tensor and pipeline: as they are, one of them larger, then both."""
    full = tight.full
    for by in sorted(product(_FACTORS, _FACTORS), key=lambda by: (min(by), max(by))):
        sizes = {"tensor": by[0] * (full.tensor or 1), "pipeline": by[1] * (full.pipeline or 1)}
        if by[0] == 1 or sizes["tensor"] <= tight.host_devices:
            yield {name: size for name, size in sizes.items() if size != (getattr(full, name) or 1)}


def _savings(tight: Tight, axes: Change) -> Iterator[dict[str, Any]]:
    """What saves memory, each kind from the cheapest to what saves the most."""
    full = replace(tight.full, **axes)
    rows = full.rows or 1
    for parts in (1 << power for power in range(1, rows.bit_length())):
        if rows % parts == 0:
            yield _rows(tight, parts)
    if (full.tensor or 1) > 1 and not full.sequence_parallel:
        yield {"sequence_parallel": True}
    sync = sync_named(str(full.strategy))
    for stage in range(sync.zero + 1, 2 if (full.pipeline or 1) > 1 else 4):
        names = strategies_of_zero(stage)
        alike = [name for name in names if sync_named(name).overlapped == sync.overlapped]
        yield {"strategy": (*alike, *names)[0]}
    if full.recompute != "full":  # of fused attention selective spares nothing
        yield {"recompute": "full"}


def _rows(tight: Tight, parts: int = 1) -> dict[str, Any]:
    """The same batch in so many times the micro-batches."""
    rows = (tight.full.rows or 1) // parts
    if tight.spec.batch and not tight.spec.micro_batches:
        return {"rows": rows}  # the batch tells the rest
    return {"rows": rows, "micro_batches": (tight.full.micro_batches or 1) * parts}


def _counted(tight: Tight, change: Change) -> Change:
    """The change, and the batch where a step whose ranks share a model counts it otherwise."""
    if tight.spec.asks_to_share or not {"tensor", "pipeline", "recompute"} & change.keys():
        return change
    return {**change, **_rows(tight), **change}


def _kept(tight: Tight, change: Change) -> float:
    """Bytes that the rank that keeps the most keeps; infinitely many of a step that cannot be."""
    base = replace(tight.spec, ranks=tight.full.ranks, precision=tight.full.precision)
    try:
        step = replace(base, **_counted(tight, change))
        return max(one.total for one in memory_of_step(step, tight.model))
    except UsageError:
        return inf


def _written(tight: Tight, change: Change) -> str:
    """The change as options of the command line."""
    return " ".join(
        f"--{name.replace('_', '-')}" + (f" {value}" if value is not True else "")
        for name, value in {**tight.said, **_counted(tight, change)}.items()
    )
