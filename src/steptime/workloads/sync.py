"""Gradient sync: which collectives each strategy calls, by the names that ``train`` knows them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, TypeAlias

from steptime.errors import UsageError

Updates: TypeAlias = Literal["root", "shard", "all"]


@dataclass(frozen=True, kw_only=True)
class Sync:
    """The calls of a strategy: how a bucket of gradients is summed and its parameters shared.

    ``reduce`` and ``share`` are kinds of collectives; no ``share`` where every rank updates
    everything. ``updates``: whether the optimizer of a rank runs on all of a bucket, on its shard
    of it, or on all of it at the root and nothing elsewhere. Where ``overlapped``, buckets are
    reduced behind backward and shared behind the update and the next forward. ``zero``: how much
    is sharded besides (Rajbhandari et al., arXiv 1910.02054): from 1 on the optimizer's state, from
    2 on gradients, which are reduced after every micro-batch, and with 3 parameters, which are
    gathered unit by unit before each forward and backward.
    """

    reduce: str
    share: str
    updates: Updates
    overlapped: bool = False
    zero: int = 0

    @property
    def in_shared_memory(self) -> bool:
        """Whether all ranks see the same parameters, so that sharing them is but a barrier."""
        return self.share == "barrier"

    @property
    def slices(self) -> bool:
        """Whether each rank is the root of a call for its own slice of a bucket."""
        return self.reduce == "reduce" and self.updates == "shard"

    def owned(self, elements: int, ranks: int, *, is_root: bool) -> int:
        """How many of the ``elements`` of a bucket a rank updates."""
        match self.updates:
            case "root":
                return elements if is_root else 0
            case "shard":
                return elements // ranks
            case "all":
                return elements


_REPLICATED = Sync(reduce="all_reduce", share="", updates="all")
_SHARDED = Sync(reduce="reduce_scatter", share="all_gather", updates="shard", zero=1)

SYNCS: Mapping[str, Sync] = MappingProxyType(
    {
        "server": Sync(reduce="reduce", share="broadcast", updates="root"),
        "replicated": _REPLICATED,
        "sharded": _SHARDED,
        "shared": replace(_SHARDED, share="barrier"),
        "sliced": Sync(reduce="reduce", share="broadcast", updates="shard", zero=1),
        "overlapped": replace(_REPLICATED, overlapped=True),
        "overlapped_sharded": replace(_SHARDED, overlapped=True),
    }
)
"""Every strategy's calls, in the order in which ``compare`` runs them."""

_OVERLAPPED_SHARDED = SYNCS["overlapped_sharded"]
ZERO: Mapping[str, Sync] = MappingProxyType(
    {
        "zero2": replace(_OVERLAPPED_SHARDED, zero=2),
        "zero3": replace(_OVERLAPPED_SHARDED, share="", zero=3),
    }
)
"""What ``train`` has no strategy for: gradients are sharded too, and parameters too."""

ZERO_SUMMARIES: Mapping[str, str] = MappingProxyType(
    {
        "zero2": "Optimizer state and gradients are sharded: reduced after every micro-batch.",
        "zero3": "Parameters are sharded too: gathered before each forward and backward.",
    }
)

OF_MANY_AXES = ("replicated", "sharded", "overlapped", "overlapped_sharded")
"""The strategies of hybrid parallelism, beside those of ``ZERO``."""


def sync_named(name: str) -> Sync:
    """The calls of the strategy ``name``; raises UsageError, naming all, where there is none."""
    known = {**SYNCS, **ZERO}
    if name not in known:
        raise UsageError(f"there is no strategy '{name}'; choose from {', '.join(known)}")
    return known[name]


def strategies_of_zero(stage: int) -> tuple[str, ...]:
    """The strategies that are this stage of ZeRO, the plainest first; none of a stage below 0."""
    plain = {0: ("replicated", "overlapped"), 1: ("sharded", "overlapped_sharded")}
    return plain.get(stage, (f"zero{stage}",) if f"zero{stage}" in ZERO else ())


def strategy_of_zero(stage: int | None, strategy: str | None) -> str | None:
    """The strategy asked for by its name, by its ``stage`` of ZeRO, or both; None for neither.

    Raises UsageError where there is no such stage or the two contradict each other.
    """
    if stage is None:
        return strategy
    able = strategies_of_zero(stage)
    if not able:
        raise UsageError(f"--zero is {stage}: ZeRO has the stages 0, 1, 2 and 3")
    if strategy is not None and strategy not in able:
        raise UsageError(
            f"--zero {stage} and --strategy {strategy} contradict each other: leave one out, or "
            f"give --strategy {' or '.join(able)}"
        )
    return strategy or able[0]
