"""Learning rates over a run, as llm.c schedules them (llmc/schedulers.h)."""

import math

from steptime.train.options import ScheduleName


def learning_rate(
    schedule: ScheduleName, step: int, steps: int, peak: float, warmup: int, final: float
) -> float:
    """Learning rate of ``step``, counted from 0, of ``steps``.

    It grows linearly over ``warmup`` steps to ``peak``, then follows the schedule down to ``final``
    times the peak. wsd stays at the peak and decays over the last fifth as 1 - sqrt (arXiv
    2405.18392); constant has neither warm-up nor decay.
    """
    if schedule == "constant":
        return peak
    if step < warmup:
        return peak * (step + 1) / warmup
    low = peak * final
    if schedule == "wsd":
        begin = int(0.8 * steps)
        if step < begin:
            return peak
        return low + (1 - math.sqrt((step - begin) / (steps - begin))) * (peak - low)
    done = (step - warmup) / max(1, steps - warmup)
    if schedule == "linear":
        return peak - done * (peak - low)
    return low + 0.5 * (1 + math.cos(math.pi * done)) * (peak - low)
