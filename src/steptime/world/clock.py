"""Clocks for the Recorder, the host's or a GPU stream's; and Peers on torch.distributed."""

import time
from typing import Any

import torch
import torch.distributed as dist

from steptime.timeline import Recorder


class TorchPeers:
    """Peers over torch.distributed, which must have been joined."""

    def __init__(self) -> None:
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        on_gpu = dist.get_backend() == "nccl"
        self._number = torch.zeros(1, dtype=torch.float64, device="cuda" if on_gpu else "cpu")

    def gather_texts(self, text: str) -> list[str]:
        """The ``text`` of every rank, in the order of the ranks, on every rank."""
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
    """A recorder whose marks are taken on the device that does the work.

    On a GPU a mark is an event on the current stream, read only when the run is over. One origin,
    taken while the device is idle, converts its time to the host's clock.
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
