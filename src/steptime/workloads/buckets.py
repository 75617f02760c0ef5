"""Buckets: a model's gradients in a flat buffer, cut into parts where a strategy overlaps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from steptime.workloads.models import Unit

_ALIGNMENT = 16  # elements: every rank's shard of a bucket starts on a cache line in fp32
_FEWEST_BUCKETS = 8


@dataclass(frozen=True)
class Bucket:
    """A part of the flat buffer: the tensors from number ``first`` to ``last``.

    ``elements`` counts them and the padding behind them.
    """

    first: int
    last: int
    elements: int


def cut(
    sizes: Sequence[int], ranks: int, bucket_elements: int | None, alignment: int = _ALIGNMENT
) -> tuple[Bucket, ...]:
    """The buckets of tensors of these sizes in forward order; without ``bucket_elements`` only one.

    A bucket is closed once it holds ``bucket_elements``, or an eighth of everything when that is
    less, so that a small model has something to overlap too. Buckets fill from the end, where
    backward begins, and are padded to a multiple of ``ranks`` times the ``alignment`` in elements,
    by default a cache line.
    """
    total = sum(sizes)
    limit = max(1, min(bucket_elements, total // _FEWEST_BUCKETS) if bucket_elements else total)
    padding = ranks * alignment
    buckets: list[Bucket] = []
    held, last = 0, len(sizes) - 1
    for number in reversed(range(len(sizes))):
        held += sizes[number]
        if held >= limit or number == 0:
            buckets.append(Bucket(number, last, -(-held // padding) * padding))
            held, last = 0, number - 1
    return tuple(reversed(buckets))


def cut_units(units: Sequence[Unit], ranks: int, bucket_elements: int | None) -> tuple[Bucket, ...]:
    """The buckets of the units' tensors, ``first`` and ``last`` of which are units.

    Backward has filled a bucket when it has finished the bucket's first unit.
    """
    unit_of = [place for place, unit in enumerate(units) for _ in unit.tensors]
    sizes = [tensor.size for unit in units for tensor in unit.tensors]
    return tuple(
        replace(bucket, first=unit_of[bucket.first], last=unit_of[bucket.last])
        for bucket in cut(sizes, ranks, bucket_elements)
    )


def by_unit(units: Sequence[Unit], ranks: int) -> tuple[Bucket, ...]:
    """One bucket for each unit that has parameters."""
    return tuple(
        Bucket(place, place, bucket.elements)
        for place, unit in enumerate(units)
        for bucket in cut([unit.parameters], ranks, None)
        if unit.parameters
    )
