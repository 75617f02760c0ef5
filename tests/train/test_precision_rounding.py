"""Stochastic rounding: bits as computed by hand, two neighbours, a mean that is exact."""

import math

import torch

from steptime.strategies import Span
from steptime.train.flat import FlatModel
from steptime.train.layout import plan_layout
from steptime.train.optimizer import ShardedAdamW
from steptime.train.precision import precision_of
from steptime.train.rounding import random_bits, stochastic

BITS = 2**32


def mixed(x: int) -> int:
    """lowbias32 (https://nullprogram.com/blog/2018/07/31/) in whole numbers."""
    x ^= x >> 16
    x = x * 0x7FEB352D % BITS
    x ^= x >> 15
    x = x * 0x846CA68B % BITS
    return x ^ (x >> 16)


def by_hand(place: int, step: int, seed: int) -> int:
    low, high = seed % BITS, (seed >> 32) % BITS
    start = mixed(step ^ mixed(mixed(high) ^ low))
    return mixed((place * 0x9E3779B9 + start) % BITS)


def test_random_bits_are_those_of_whole_numbers():
    for first, step, seed in ((0, 0, 0), (7, 1, 1), (2**31 - 2, 9, 2**63 + 5), (2**32 - 3, 3, 4)):
        found = random_bits(first, 6, torch.tensor(float(step)), seed).tolist()
        assert [one % BITS for one in found] == [
            by_hand(first + place, step, seed) for place in range(6)
        ]


def test_a_number_becomes_one_of_its_two_neighbours_and_the_mean_is_exact():
    draws, low, high = 100_000, 1.0, 1.0 + 2.0**-7
    for share in (0.0, 0.1, 0.5, 0.9):
        value = torch.tensor(low + share * (high - low))
        exact = (float(value) - low) / (high - low)
        for sign in (1, -1):
            found = stochastic(sign * value.repeat(draws), 5, torch.tensor(3.0), seed=1).abs()
            up = (found == high).double().mean()
            assert bool(((found == low) | (found == high)).all())
            # 6 standard deviations; the bits depend on nothing but the seed.
            assert abs(up - exact) <= 6 * math.sqrt(exact * (1 - exact) / draws) + 2**-16


def test_what_is_no_number_stays_so():
    values = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0] * 1000)
    found = stochastic(values, 0, torch.tensor(1.0), seed=0)
    assert torch.equal(torch.nan_to_num(found, nan=7.0), torch.nan_to_num(values, nan=7.0))
    all_ones = torch.full((1000,), -1, dtype=torch.int32).view(torch.float32)
    assert bool(stochastic(all_ones, 0, torch.tensor(1.0), seed=0).isnan().all())


def updated(spans, rounding, steps=3, weight=1.0, gradient=1.0):
    """bf16 weights after AdamW with a rate of 2^-12, on the ranks that own these spans."""
    tensors = [("w", (300_000,)), ("b", (100,))]
    layout = plan_layout(tensors, ranks=4, bucket_elements=None)
    parameters = torch.full((layout.size,), weight, dtype=torch.bfloat16)
    flat = FlatModel(layout, parameters, torch.full((layout.size,), gradient))
    precision = precision_of("bf16-params", "fp32", rounding)
    for span in spans(layout.buckets[0]):
        optimizer = ShardedAdamW(flat, flat.parameters, [span], 0.0, precision, seed=2)
        segments = optimizer.segments[0]
        assert {s.mean.dtype for s in segments} == {s.weight.dtype for s in segments}
        assert segments[0].weight.dtype == torch.bfloat16
        for _ in range(steps):
            optimizer.update(0, 2.0**-12, None)
        assert {float(s.step) for s in segments} == {float(steps)}
    return parameters.float()[:300_100]


def test_an_update_below_the_nearest_number_is_lost_but_for_chance():
    whole = [lambda bucket: [bucket], lambda bucket: [bucket.share(r, 4) for r in range(4)]]
    assert bool((updated(whole[0], "nearest") == 1).all())  # 1 - 2^-12 is nearest to 1
    found = [updated(spans, "stochastic") for spans in whole]
    # Adam's steps with one gradient are the rate itself: 3 · 2^-12 below 1, on the mean.
    assert abs(float((1 - found[0]).double().mean()) * 2**12 - 3) < 0.05
    # Were the bits those of places within a rank, a third of the weights would differ.
    assert float((found[0] != found[1]).double().mean()) < 0.01


def test_padding_and_ranks_that_own_nothing_are_left_alone():
    found = updated(lambda bucket: [Span(bucket.start, bucket.start + 1)], "stochastic", steps=1)
    assert bool((found[1:] == 1).all())
