"""A stand-in for computing on a GPU: matrix products that keep it busy."""

import time
from collections.abc import Callable

import torch

from steptime.replay.standin import Poll, Rest, StandIn

_LOOK_S = 20e-6
_WIDTH = 2048  # of the matrices
_BURSTS, _PRODUCTS = 10, 20


def busy_gpu(device: torch.device) -> StandIn:
    """A stand-in that runs the matrix products which this GPU, otherwise idle, does in the time."""
    matrix = torch.ones(_WIDTH, _WIDTH, dtype=torch.bfloat16, device=device)
    product = torch.empty_like(matrix)
    stream = torch.cuda.Stream(device)

    def multiply(times: int) -> torch.cuda.Event:
        end = torch.cuda.Event()
        with torch.cuda.stream(stream):
            for _ in range(times):
                torch.mm(matrix, matrix, out=product)
            end.record(stream)
        return end

    each_s = min(_product_s(multiply) for _ in range(_BURSTS))

    def work(seconds: float, poll: Poll, _: Rest) -> None:
        end = multiply(round(seconds / each_s))
        while not end.query():
            poll()
            time.sleep(_LOOK_S)

    return work


def _product_s(multiply: Callable[[int], torch.cuda.Event]) -> float:
    """Seconds of one product when many follow one another."""
    multiply(1).synchronize()
    start = time.perf_counter()
    multiply(_PRODUCTS).synchronize()
    return (time.perf_counter() - start) / _PRODUCTS
