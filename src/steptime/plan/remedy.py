"""What would fit where nothing does: the smallest change, or the smallest cluster."""

from dataclasses import replace

from steptime.errors import UsageError
from steptime.plan.asked import NOT_IN_SPACE, Asked
from steptime.plan.options import PlanOptions
from steptime.plan.search import search
from steptime.predict.layouts import Layouts, spec_of
from steptime.units import format_bytes

_DOUBLINGS = 10
_TOLD = ("data", "tensor", "pipeline", "interleave", "expert", "context", "rows", "zero")


def remedy(asked: Asked, gpus: int) -> str:
    """One sentence: what to leave out, or how many of these devices it takes."""
    if fixed := [name for name in asked.said.given() if name not in NOT_IN_SPACE]:
        free = {name: getattr(asked.said, name) for name in NOT_IN_SPACE}
        released = replace(asked, said=PlanOptions(**free))
        if best := _best(released, gpus):
            said = ", ".join(f"--{name.replace('_', '-')}" for name in fixed)
            return f"Without {said} it fits: {best}."
        asked = released
    for doubling in range(1, _DOUBLINGS + 1):
        count = gpus << doubling
        if best := _best(asked, count):
            larger = "" if count <= asked.cluster.order.size else " (a larger cluster)"
            return f"It fits on {count:,} of these devices{larger}: {best}."
    if asked.tokens > 1 and (best := _best(replace(asked, tokens=asked.tokens // 2), gpus)):
        return f"With rows of {asked.tokens // 2:,} tokens it fits: {best}."
    return f"Nor does it on {gpus << _DOUBLINGS:,} of these devices."


def _best(asked: Asked, gpus: int) -> str:
    """The options of the fastest layout that fits on so many ranks, and what it keeps."""
    every = _layouts(asked, gpus)
    if every is None:
        return ""
    found = search(asked.model, every, asked.machine, best=1, told=False)
    if not found.fits:
        return ""
    spec = spec_of(asked.name, found.layouts[0])
    told = [f"--{name} {getattr(spec, name)}" for name in _TOLD if (getattr(spec, name) or 0) > 1]
    told += ["--zero 1"] * (spec.zero == 1)
    told += [f"--recompute {spec.recompute}"] * (spec.recompute != "none")
    return f"{' '.join(told)} keeps {format_bytes(found.memory_bytes[0])} a rank"


def _layouts(asked: Asked, gpus: int) -> Layouts | None:
    """All layouts on so many ranks, of a batch that they can share; None where there are none."""
    batch = asked.batch if asked.batch >= gpus or gpus % asked.batch == 0 else gpus
    try:
        return replace(asked, batch=batch).layouts(gpus)
    except UsageError:
        return None
