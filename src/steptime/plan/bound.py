"""A bound from below on a step, from computing alone: what no estimate of a layout can undercut."""

import numpy as np

from steptime.arrays import Floats
from steptime.predict.layouts import PRECISIONS, RECOMPUTES, SCHEDULES, Layouts, ranks_of, tokens_of
from steptime.predict.machine import Machine
from steptime.workloads.models import Transformer

_FULL = RECOMPUTES.index("full")
_FILLED = SCHEDULES.index("zb-h1")


def least_seconds(model: Transformer, layouts: Layouts, machine: Machine) -> Floats:
    """Seconds that each layout takes at least, shape (layouts,).

    All its products at the device's peak, evenly shared; while a pipeline fills and drains its
    stages wait, (stages - 1) / (micro-batches × chunks) of that (arXiv 2104.04473, section 2.2),
    less in a schedule that fills the bubble, which here counts as none. Attention is left out, for
    what of it is computed depends on masks.
    """
    forward = [sum(part.weight_flops for part in unit.parts) for unit in model.units]
    per_token = 3 * sum(forward) + sum(forward[1:-1]) * (layouts["recompute"] == _FULL)
    peak = np.array([machine.device.flops.get(name, np.nan) for name in PRECISIONS])
    seconds = per_token * tokens_of(layouts) / ranks_of(layouts) / peak[layouts["precision"]]
    chunks = layouts["micro_batches"] * layouts["interleave"]
    waits = np.where(layouts["schedule"] == _FILLED, 0, (layouts["pipeline"] - 1) / chunks)
    return np.asarray(seconds * (1 + waits))
