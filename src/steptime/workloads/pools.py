"""Pools: the parameters of a stage whose gradients the same ranks sum, in buckets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

from steptime.program import PIPELINE
from steptime.workloads.buckets import Bucket, cut
from steptime.workloads.mesh import CONTEXT, DATA, EXPERT, TENSOR, Mesh
from steptime.workloads.models import Tensor, Unit
from steptime.workloads.sync import Sync
from steptime.workloads.tensor import in_parts


@dataclass(frozen=True)
class Table:
    """The tied table, of which the first and the last stage hold a copy each.

    ``tensor``: its name. ``by``: the distance in stages to the other copy.
    """

    tensor: str
    by: int


class Held(NamedTuple):
    """A tensor of the unit of that number, of which a rank has so many elements."""

    unit: int
    tensor: Tensor
    elements: int


_Part: TypeAlias = tuple[Bucket, tuple[Held, ...]]
"""A bucket and its tensors."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Parameters whose gradients the same ranks sum, in buckets of ``units`` by their numbers.

    ``axes``: those along which ranks hold the same parameters. ``held``: the tensors of each
    bucket, in order; of experts that are spread over ranks, those of the first rank. ``table``: the
    bucket that is the tied table alone.
    """

    name: str
    axes: tuple[str, ...]
    ranks: int
    buckets: tuple[Bucket, ...]
    held: tuple[tuple[Held, ...], ...]
    table: int | None = None

    @property
    def elements(self) -> int:
        """Elements of its buckets, padding included."""
        return sum(bucket.elements for bucket in self.buckets)


@dataclass(frozen=True, kw_only=True)
class Gradients:
    """The parameters and gradients of a stage's ``units``, in forward order.

    Experts that are spread over ranks are other parameters on each of them: their gradients are
    summed along context and data alone, all others along expert too. ``bucket_elements`` count
    where the strategy overlaps. ``tied``: whether the head multiplies with the table of the
    embedding, and both are in this stage. ``table``: set where they are in two stages, and this is
    one of them.
    """

    mesh: Mesh
    units: tuple[Unit, ...]
    sync: Sync
    dtype: str
    reduce_dtype: str
    bucket_elements: int
    clip: bool
    tied: bool
    table: Table | None
    sequence_parallel: bool

    @cached_property
    def pools(self) -> tuple[Pool, ...]:
        """All parameters of a rank: experts in a pool of their own where they are spread."""
        everything = self._pool("", (CONTEXT, EXPERT, DATA), experts=False)
        if self.mesh.expert == 1:
            return (everything,)
        return everything, self._pool("experts", (CONTEXT, DATA), experts=True)

    def _pool(self, name: str, axes: tuple[str, ...], *, experts: bool) -> Pool:
        ranks = self.mesh.members(*axes)
        held = list(self._held(experts=experts))
        parts, table = self._cut(held, ranks)
        shared = self.mesh.group(*(axis for axis in axes if self.mesh.sizes[axis] > 1))
        return Pool(
            name=name,
            axes=shared or (DATA,),
            ranks=ranks,
            buckets=tuple(bucket for bucket, _ in parts),
            held=tuple(tensors for _, tensors in parts),
            table=table,
        )

    def _held(self, *, experts: bool) -> Iterator[Held]:
        """The tensors of a pool."""
        spread = self.mesh.expert > 1
        for number, unit in enumerate(self.units):
            of_pool = [t for t in unit.tensors if (t.expert and spread) == experts]
            for tensor in of_pool[: len(of_pool) // self.mesh.expert] if experts else of_pool:
                size = tensor.size // self.mesh.tensor if tensor.split else tensor.size
                yield Held(number, tensor, size)

    def _cut(self, held: Sequence[Held], ranks: int) -> tuple[Sequence[_Part], int | None]:
        """The buckets of these tensors, and the number of the table's."""
        if self.sync.zero == 3:
            return tuple(self._of_units(held, ranks)), None
        # Alone in a bucket the table is cut into the same shares in both stages: its copies are
        # summed in the same order there, to the last bit, and each rank adds up what it owns.
        alone = [one for one in held if self.table and one.tensor.name == self.table.tensor]
        elements = self.bucket_elements if self.sync.overlapped else None
        rest = _buckets([one for one in held if one not in alone], ranks, elements)
        parts = sorted((*rest, *_buckets(alone, ranks, None)), key=lambda part: part[0].last)
        table = [n for n, (_, tensors) in enumerate(parts) if alone and tensors[0] in alone]
        return tuple(parts), table[0] if table else None

    def _of_units(self, held: Sequence[Held], ranks: int) -> Iterator[_Part]:
        for number in dict.fromkeys(one.unit for one in held):
            yield from _buckets([one for one in held if one.unit == number], ranks, None)

    @property
    def norm_axes(self) -> tuple[str, ...]:
        """The axes along which ranks update other parameters than this one does."""
        if self.sync.updates == "shard":
            return tuple(self.mesh.sizes)
        return (TENSOR, EXPERT, PIPELINE)

    @property
    def unsplit(self) -> int:
        """Elements of a rank whose gradients tensor-parallel ranks add up, 0 where there are none.

        ``in_parts`` tells which.
        """
        if self.mesh.tensor == 1:
            return 0
        every = (one for pool in self.pools for tensors in pool.held for one in tensors)
        return sum(
            one.elements
            for one in every
            if in_parts(one.tensor, sequence_parallel=self.sequence_parallel)
        )


def _buckets(held: Sequence[Held], ranks: int, elements: int | None) -> tuple[_Part, ...]:
    sizes = [one.elements for one in held]
    return tuple(
        (
            Bucket(held[bucket.first].unit, held[bucket.last].unit, bucket.elements),
            tuple(held[bucket.first : bucket.last + 1]),
        )
        for bucket in cut(sizes, ranks, elements, alignment=1)
    )
