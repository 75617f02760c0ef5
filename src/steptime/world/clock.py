"""A clock for the Recorder: the host's, or that of a GPU's stream; and ranks to compare them."""

import time
from typing import Any

import torch
import torch.distributed as dist

from steptime.timeline import Recorder


class TorchPeers:
    """The ranks of torch.distributed, which must have been joined."""

    def __init__(self) -> None:
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        on_gpu = dist.get_backend() == "nccl"
        self._number = torch.zeros(1, dtype=torch.float64, device="cuda" if on_gpu else "cpu")

    def gather_texts(self, text: str) -> list[str]:
        """What every rank gives, in their order, on every rank."""
        found: list[Any] = [None] * self.ranks
        dist.all_gather_object(found, text)
        return found

    def send(self, number: float, to: int) -> None:
        """Send a number to a rank."""
        self._number[0] = number
        dist.send(self._number, to)

    def receive(self, source: int) -> float:
        """Wait for a number from a rank."""
        dist.recv(self._number, source)
        return float(self._number)


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
