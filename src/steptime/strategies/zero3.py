"""ZeRO's stage 3, as PyTorch's FSDP: a unit's parameters are there only while it is computed.

Rajbhandari et al., "ZeRO" (arXiv 1910.02054), section 5.3; Zhao et al., "PyTorch FSDP" (arXiv
2304.11277).
"""

from collections.abc import Iterable
from dataclasses import replace

from steptime.strategies import zero2
from steptime.strategies.strategy import Communicator, Vector, Work


def gather(comm: Communicator, parameters: Vector) -> Iterable[Work]:
    return [comm.all_gather(parameters)]


def share(comm: Communicator, parameters: Vector) -> Iterable[Work]:
    return []


STRATEGY = replace(
    zero2.STRATEGY,
    name="zero3",
    summary="Parameters are sharded too: gathered before each forward and backward.",
    share=share,
    gather=gather,
    zero=3,
    known_as=("zero-3", "fsdp", "fsdp2", "hsdp", "fully_sharded"),
)
