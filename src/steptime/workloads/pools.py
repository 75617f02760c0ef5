"""Pools: the parameters of a stage whose gradients the same ranks sum, in buckets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from steptime.workloads.buckets import Bucket, cut
from steptime.workloads.mesh import CONTEXT, DATA, EXPERT, Mesh
from steptime.workloads.models import Tensor, Unit
from steptime.workloads.sync import Sync


@dataclass(frozen=True)
class Table:
    """The tied table, of which the first and the last stage hold a copy each.

    ``tensor``: its name. ``by``: the distance in stages to the other copy.
    """

    tensor: str
    by: int


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Parameters whose gradients the same ranks sum, in buckets of ``units`` by their numbers.

    ``axes``: those along which ranks hold the same parameters. ``table``: the bucket that is the
    tied table alone.
    """

    name: str
    axes: tuple[str, ...]
    ranks: int
    buckets: tuple[Bucket, ...]
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
        held = [
            (number, tensor.name, size)
            for number, unit in enumerate(self.units)
            for tensor, size in self._held(unit, experts=experts)
        ]
        buckets, table = self._cut(held, ranks)
        shared = self.mesh.group(*(axis for axis in axes if self.mesh.sizes[axis] > 1))
        return Pool(name=name, axes=shared or (DATA,), ranks=ranks, buckets=buckets, table=table)

    def _held(self, unit: Unit, *, experts: bool) -> Iterator[tuple[Tensor, int]]:
        """The tensors of a unit that belong to a pool, and the elements of each on a rank."""
        spread = self.mesh.expert > 1
        of_pool = [t for t in unit.tensors if (t.expert and spread) == experts]
        for tensor in of_pool[: len(of_pool) // self.mesh.expert] if experts else of_pool:
            yield tensor, tensor.size // self.mesh.tensor if tensor.split else tensor.size

    def _cut(
        self, held: Sequence[tuple[int, str, int]], ranks: int
    ) -> tuple[tuple[Bucket, ...], int | None]:
        """The buckets of tensors (unit, name, elements), and the number of the table's."""
        if self.sync.zero == 3:
            return tuple(self._of_units(held, ranks)), None
        if not self.sync.overlapped:
            return _buckets(held, ranks, None), None
        # Both stages then own the same share of the table, and can add up what was reduced.
        alone = [one for one in held if self.table and one[1] == self.table.tensor]
        rest = _buckets([one for one in held if one not in alone], ranks, self.bucket_elements)
        buckets = sorted((*rest, *_buckets(alone, ranks, None)), key=lambda bucket: bucket.last)
        table = [n for n, bucket in enumerate(buckets) if bucket not in rest]
        return tuple(buckets), table[0] if table else None

    def _of_units(self, held: Sequence[tuple[int, str, int]], ranks: int) -> Iterator[Bucket]:
        for number in dict.fromkeys(unit for unit, _, _ in held):
            yield from _buckets([one for one in held if one[0] == number], ranks, None)

    @property
    def table_elements(self) -> int:
        """Elements that a rank has of a table of which another stage has a copy; else 0."""
        held = (one for unit in self.units for one in self._held(unit, experts=False))
        return next((size for t, size in held if self.table and t.name == self.table.tensor), 0)

    @property
    def unsplit(self) -> int:
        """Elements of the tensors that every tensor-parallel rank has."""
        return sum(t.size for unit in self.units for t in unit.tensors if not t.split)


def _buckets(
    held: Sequence[tuple[int, str, int]], ranks: int, elements: int | None
) -> tuple[Bucket, ...]:
    return tuple(
        Bucket(held[bucket.first][0], held[bucket.last][0], bucket.elements)
        for bucket in cut([size for _, _, size in held], ranks, elements, alignment=1)
    )
