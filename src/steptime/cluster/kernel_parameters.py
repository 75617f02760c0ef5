"""What a device's kernels are priced by: few physical parameters, each with its source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Ground: TypeAlias = Literal["given", "published", "fitted", "assumed"]
"""Where a parameter comes from: a datasheet, a published measurement, a fit to such, or a guess."""


@dataclass(frozen=True)
class Origin:
    """Where the value of a parameter comes from, and how it became that."""

    basis: Ground
    source: str


@dataclass(frozen=True, kw_only=True)
class AttentionRates:
    """A generation of fused attention on a device; each is a parameter of ``MEANINGS``."""

    forward: float
    backward: float
    softmax: float
    lead_forward: float
    lead_backward: float


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """The parameters of a device's kernels, as ``MEANINGS`` explains them.

    ``attention``: by the name of a generation of kernels, such as flash2, the usual one first.
    ``origins``: of each parameter, by its name; those of attention's as "flash2.forward".
    """

    units: int
    start_s: float
    reach: float
    rate: float
    feed: float
    epilogue: float
    sustained: Mapping[str, float]
    unaligned: float
    launch_s: float
    attention: Mapping[str, AttentionRates]
    origins: Mapping[str, Origin] = field(default_factory=dict)


MEANINGS: Mapping[str, str] = {
    "units": "multiprocessors (compute units), to which a kernel's blocks are given in waves",
    "start_s": "what a kernel takes until it works at full rate, and to end",
    "reach": "share of the memory's bandwidth that long kernels reach",
    "rate": "share of the peak that a product's main loop reaches while operands keep up",
    "feed": "bytes/s at which all units are fed operands from the cache that they share",
    "epilogue": "share of a product's result whose writing the next tile's main loop does not hide",
    "sustained": "share of the peak, by dtype, that long products hold within the power limit",
    "unaligned": "share of its rate left to a product with a side that 16 bytes do not divide",
    "launch_s": "from one tiny kernel of eager PyTorch to the next, the host's time",
    "forward": "share of the peak that attention's forward tends to, heads of 128, long rows",
    "backward": "the same of backward",
    "softmax": "the width of a head whose products take as long as its softmax",
    "lead_forward": "keys' worth of time that a block of queries takes to begin and to end",
    "lead_backward": "the same of backward",
}
"""What each parameter is."""
