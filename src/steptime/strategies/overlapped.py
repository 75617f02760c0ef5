"""The replicated strategy, bucket by bucket while backward still runs.

Li et al., "PyTorch Distributed" (arXiv 2006.15704), section 3.2.3.
"""

from dataclasses import replace

from steptime.strategies import replicated

STRATEGY = replace(
    replicated.STRATEGY,
    name="overlapped",
    summary="all_reduce buckets of gradients while backward runs, every rank updates everything",
    overlapped=True,
    known_as=("ddp", "distributeddataparallel"),
)
