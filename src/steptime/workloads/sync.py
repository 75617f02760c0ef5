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
    reduced behind backward and shared behind the update and the next forward.
    """

    reduce: str
    share: str
    updates: Updates
    overlapped: bool = False

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
_SHARDED = Sync(reduce="reduce_scatter", share="all_gather", updates="shard")

SYNCS: Mapping[str, Sync] = MappingProxyType(
    {
        "server": Sync(reduce="reduce", share="broadcast", updates="root"),
        "replicated": _REPLICATED,
        "sharded": _SHARDED,
        "shared": replace(_SHARDED, share="barrier"),
        "sliced": Sync(reduce="reduce", share="broadcast", updates="shard"),
        "overlapped": replace(_REPLICATED, overlapped=True),
        "overlapped_sharded": replace(_SHARDED, overlapped=True),
    }
)
"""Every strategy's calls, in the order in which ``compare`` runs them."""


def sync_named(name: str) -> Sync:
    """The calls of the strategy ``name``; raises UsageError, naming all, where there is none."""
    if name not in SYNCS:
        raise UsageError(f"there is no strategy '{name}'; choose from {', '.join(SYNCS)}")
    return SYNCS[name]
