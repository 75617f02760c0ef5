"""Stochastic rounding to bf16: up or down by chance, so that the mean of many is exact.

To the nearest, an update below half the distance between two bf16 numbers, 2^-9 to 2^-8 of a
weight, is lost, and so is the next; by chance one in so many moves the weight a whole step. Gupta
et al., arXiv 1502.02551; for the weights of transformers Zamirai et al., arXiv 2010.06192.
"""

import torch
from torch import Tensor

_LOW = 0xFFFF  # the bits of an fp32 number that bf16 lacks
_STRIDE = 0x9E3779B9 - 2**32  # 2^32 over the golden ratio, as an int32


def stochastic(values: Tensor, first: int, step: Tensor, seed: int) -> Tensor:
    """fp32 ``values``, shape (n,), rounded to numbers that bf16 has; still fp32.

    A number between two of bf16 becomes the upper one with the probability of its share of the way
    there: random bits are added below those of bf16, and what is below them is cut off. What is no
    number, or infinite, stays. ``first``, the place of ``values`` in the whole model, and ``step``,
    shape (), tell the random bits, so that they are the same however ranks divide the model.
    """
    random = random_bits(first, len(values), step, seed) & _LOW
    cut = ((values.view(torch.int32) + random) & ~_LOW).view(torch.float32)
    return torch.where(values.isfinite(), cut, values)


def random_bits(first: int, count: int, step: Tensor, seed: int) -> Tensor:
    """32 random bits for each of ``count`` places from ``first`` on, shape (count,), int32.

    A counter, mixed: places, steps and seeds have bits of their own, on every device the same.
    Those of places 2^32 apart are equal.
    """
    device = step.device
    start = _mixed(step.to(torch.int32) ^ _mixed(_words(seed, device)[0]))
    low = _as_int32(first)
    places = torch.arange(low, low + count, dtype=torch.int64, device=device).to(torch.int32)
    return _mixed(places * _STRIDE + start)


def _words(seed: int, device: torch.device) -> Tensor:
    """A seed of up to 64 bits as one of 32, shape (1,)."""
    low, high = (torch.tensor([_as_int32(seed >> at)], dtype=torch.int32) for at in (0, 32))
    return (_mixed(high) ^ low).to(device)


def _as_int32(number: int) -> int:
    """The low 32 bits of a number, with a sign."""
    return (number + 2**31) % 2**32 - 2**31


def _mixed(x: Tensor) -> Tensor:
    """A permutation of 32-bit numbers each of whose bits depends on all: lowbias32 of C. Wellons.

    Products wrap, and shifts bring in zeros.
    """
    x = x ^ ((x >> 16) & 0xFFFF)
    x = x * 0x7FEB352D
    x = x ^ ((x >> 15) & 0x1FFFF)
    x = x * _as_int32(0x846CA68B)
    return x ^ ((x >> 16) & 0xFFFF)
