"""The sharded strategy, bucket by bucket: behind backward, and behind update and forward."""

from dataclasses import replace

from steptime.strategies import sharded

STRATEGY = replace(
    sharded.STRATEGY,
    name="overlapped_sharded",
    summary="reduce_scatter buckets while backward runs, update shards, all_gather behind forward",
    overlapped=True,
    known_as=("distributed_optimizer",),
)
