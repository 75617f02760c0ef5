"""Mesh: the axes along which the ranks of a step share a model and its batch."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import prod

from steptime.errors import UsageError
from steptime.limits import MOST_RANKS, check_within
from steptime.program import PIPELINE
from steptime.workloads.divide import check_at_least_1

TENSOR, CONTEXT, EXPERT, DATA = "tensor", "context", "expert", "data"


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """How many ranks there are along each axis, of which the first varies fastest.

    The more an axis sends and the less of that hides behind computing, the closer its ranks are
    to each other. ``tensor`` sends activations around every half of a block and hides nothing;
    ``context`` keys and values once a block; ``expert`` tokens twice a block that has experts;
    ``data`` gradients once a step, behind backward where the strategy overlaps; ``pipeline``
    activations between two stages, the least of all. This is Megatron-LM's order tp-cp-ep-dp-pp.

    Raises UsageError for a size below 1, and for more ranks than anybody has.
    """

    tensor: int = 1
    context: int = 1
    expert: int = 1
    data: int = 1
    pipeline: int = 1

    def __post_init__(self) -> None:
        check_at_least_1((f"{name} ranks", size) for name, size in self.sizes.items())
        check_within("the number of ranks", self.ranks, 1, MOST_RANKS)

    @property
    def sizes(self) -> Mapping[str, int]:
        """The number of ranks along every axis, the fastest varying first."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def axes(self) -> Mapping[str, int]:
        """The axes of a program: without context and expert where these are not used."""
        named = (TENSOR, DATA, PIPELINE)
        return {name: size for name, size in self.sizes.items() if size > 1 or name in named}

    @property
    def ranks(self) -> int:
        """How many ranks there are in all."""
        return prod(self.sizes.values())

    @property
    def replicas(self) -> int:
        """How many groups of ranks have rows of their own: ``data`` times ``expert``."""
        return self.data * self.expert

    def replicated(self, ranks: int, data: int | None) -> "Mesh":
        """The mesh with ``data`` replicas or, for None, as many as fit into ``ranks``.

        Raises UsageError where that makes another number of ranks.
        """
        mesh = replace(self, data=data or max(1, ranks // self.ranks))
        if mesh.ranks != ranks:
            each = self.ranks * (data or 1)
            below = ranks // each * each
            nearest = f"{below} or {below + each}" if below else f"{each}"
            raise UsageError(
                f"{mesh} are {mesh.ranks} ranks, not {ranks}: the nearest number of ranks that "
                f"goes is {nearest}"
            )
        return mesh

    def group(self, *axes: str) -> tuple[str, ...]:
        """Those of the given axes that a program has, in its order."""
        return tuple(name for name in self.axes if name in axes)

    def members(self, *axes: str) -> int:
        """How many ranks differ along the given axes alone."""
        return prod(self.sizes[name] for name in axes)

    def __str__(self) -> str:
        return " × ".join(f"{name} {size}" for name, size in self.axes.items())
