"""What bounds a cell of a scaling study, in one sentence."""

import numpy as np

from steptime.runs.scale import CellBound
from steptime.timeline.efficiency import Scaling, Usage, efficiency

_NEGLIGIBLE = 0.02


def bound_of(
    usage: Usage,
    ideal: Usage,
    against: Scaling,
    *,
    other_s: float,
    is_baseline: bool,
    oversubscribed: bool,
) -> CellBound:
    """Which factor of the global efficiency is the smallest, and by how much.

    ``other_s``: what a rank does in a step that is neither useful nor communication. It counts
    within serialisation, as no network saves it, and is named by itself where it is most of that.
    """
    factors = efficiency(usage, ideal)
    found = {
        "computation": against.computation_scalability,
        "load balance": factors.load_balance,
        "serialisation": factors.serialisation_efficiency or 1.0,
        "transfer": factors.transfer_efficiency or 1.0,
    }
    factor = min(found, key=lambda name: found[name])
    step_s = usage.run_time_s / usage.steps
    waited = ideal.run_time_s / ideal.steps - ideal.longest_s / ideal.steps
    if found[factor] > 1 - _NEGLIGIBLE:
        factor = "nothing"
    elif factor == "serialisation" and other_s > waited / 2:
        factor = "other work"
    match factor:
        case "computation":
            sentence = _computation(against.computation_scalability, oversubscribed)
        case "load balance":
            busiest = int(np.argmax(usage.useful_s))
            longer = _percent(usage.longest_s / usage.mean_s - 1)
            sentence = f"load balance: rank {busiest} computes {longer} longer than the mean"
        case "serialisation":
            sentence = f"serialisation: ranks wait for one another {_percent(waited / step_s)}"
            sentence += " of the step, and would on any network"
        case "transfer":
            saved = 1 - (ideal.run_time_s / ideal.steps) / step_s
            sentence = f"transfer: an ideal network would save {_percent(saved)} of the step"
        case "other work":
            sentence = f"other work, such as reading the batch, takes {_percent(other_s / step_s)}"
            sentence += " of the step"
        case _:
            useful = _percent(factors.parallel_efficiency)
            sentence = f"nothing in particular: {useful} of its time is useful"
    return CellBound(factor, f"the baseline; {sentence}" if is_baseline else sentence)


def _computation(scalability: float, oversubscribed: bool) -> str:
    more = 1 / scalability - 1
    how = f"{1 / scalability:.1f} times the" if more >= 1 else f"{_percent(more)} more"
    where = ", with more threads than cores" if oversubscribed else ""
    return f"computation: the same work takes {how} compute time, all threads together{where}"


def _percent(part: float) -> str:
    return "less than 1 %" if 0 < part < 0.005 else f"{100 * part:.0f} %"
