"""ZeRO's stage 2: gradients are sharded too, so they are reduced after every micro-batch.

Rajbhandari et al., "ZeRO" (arXiv 1910.02054), section 5.2.
"""

from dataclasses import replace

from steptime.strategies import overlapped_sharded

STRATEGY = replace(
    overlapped_sharded.STRATEGY,
    name="zero2",
    summary="Optimizer state and gradients are sharded: reduced after every micro-batch.",
    zero=2,
    known_as=("zero-2",),
)
