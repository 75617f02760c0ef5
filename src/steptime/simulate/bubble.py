"""The bubble of a pipeline's own schedule, of a program whose computing all has its seconds."""

import numpy as np

from steptime.cluster.cluster import Device
from steptime.program import PIPELINE, Program, match_calls
from steptime.simulate.priced import ideal_step
from steptime.simulate.queues import queues

_NO_DEVICE = Device(name="", flops={}, memory=0.0, memory_bandwidth=np.inf)


def bubble_of(program: Program) -> float:
    """What its stages wait for each other where calls take no time; 0 without a pipeline.

    As a part of what its busiest rank works, as ``Ideal`` has it. Every ``Compute`` of ``program``
    must have ``seconds``, for no device is asked what it takes.
    """
    if program.axes.get(PIPELINE, 1) == 1:
        return 0.0
    queued = queues(program, _NO_DEVICE, np.ones(program.ranks))
    return ideal_step(program, queued, match_calls(program)).bubble
