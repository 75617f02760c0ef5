"""A clock for the Recorder: the host's, or that of a GPU's stream."""

import time

import torch

from steptime.timeline import Recorder


def recorder_for(device: torch.device) -> Recorder:
    """A recorder whose marks are taken where the device's work happens.

    On a GPU a mark is an event on the current stream, read only when the run is over; it is placed
    on the host's clock by one origin, taken while the device is idle.
    """
    if device.type != "cuda":
        return Recorder()
    torch.cuda.synchronize(device)
    origin_s, origin = time.perf_counter(), _mark()

    def seconds(mark: torch.cuda.Event) -> float:
        mark.synchronize()
        return origin_s + float(origin.elapsed_time(mark)) / 1e3

    return Recorder(_mark, seconds)


def _mark() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
