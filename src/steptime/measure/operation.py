"""Operations to measure: their inputs, outputs, and sizes as nccl-tests counts them.

Sizes, counts and bus factors are those of nccl-tests (doc/PERFORMANCE.md, v2.19.6).
"""

from dataclasses import dataclass
from types import MappingProxyType

from steptime.errors import UsageError
from steptime.nearest import mend


@dataclass(frozen=True)
class Operation:
    """One operation on vectors of ``count`` elements, or of ``count`` for each rank.

    ``shares_in``, ``shares_out``: the input, or the output, holds ``count`` elements for each rank
    rather than ``count`` in all. ``in_place``: the output may lie where the input was.
    """

    name: str
    shares_in: bool = False
    shares_out: bool = False
    rooted: bool = False
    reduces: bool = False
    in_place: bool = True

    def elements(self, count: int, ranks: int) -> int:
        """Elements of the larger of input and output: S of algbw = S/t is their size."""
        return count * ranks if self.shares_in or self.shares_out else count

    def count(self, nbytes: int, itemsize: int, ranks: int) -> int:
        """The count for a size of ``nbytes`` or slightly less; at least one element."""
        return max(1, nbytes // itemsize // self.elements(1, ranks)) if self.moves else 0

    def input_of(self, rank: int, count: int, ranks: int) -> slice:
        """The input of a rank as a slice of a vector of all ``elements``."""
        return _part(self.shares_out and not self.shares_in, rank, count, ranks, self)

    def output_of(self, rank: int, count: int, ranks: int) -> slice:
        """The output of a rank as a slice of a vector of all ``elements``."""
        return _part(self.shares_in and not self.shares_out, rank, count, ranks, self)

    def bus(self, ranks: int) -> float:
        """The ratio busbw / algbw."""
        from steptime.collectives.call_bytes import bus_factor  # no help waits for NumPy

        return bus_factor(self.name, ranks)

    @property
    def moves(self) -> bool:
        """Whether it moves data at all."""
        return self.name != "barrier"


def _part(one_share: bool, rank: int, count: int, ranks: int, operation: Operation) -> slice:
    if one_share:
        return slice(rank * count, (rank + 1) * count)
    return slice(0, operation.elements(count, ranks))


OPERATIONS = MappingProxyType(
    {
        operation.name: operation
        for operation in (
            Operation("all_reduce", reduces=True),
            Operation("all_gather", shares_out=True),
            Operation("reduce_scatter", shares_in=True, reduces=True),
            Operation("broadcast", rooted=True),
            Operation("reduce", rooted=True, reduces=True),
            Operation("gather", shares_out=True, rooted=True),
            Operation("scatter", shares_in=True, rooted=True),
            Operation("all_to_all", shares_in=True, shares_out=True, in_place=False),
            Operation("sendrecv", in_place=False),
            Operation("barrier", in_place=False),
        )
    }
)

REDUCTIONS = ("sum", "avg", "min", "max", "product")


def operation_named(name: str) -> Operation:
    """The operation of that name, or a UsageError that lists them."""
    if name not in OPERATIONS:
        raise UsageError(f"there is no operation {name!r}: {mend(name, OPERATIONS)}")
    return OPERATIONS[name]


def reduction_named(name: str) -> str:
    """The reduction of that name, nccl-tests' prod included, or a UsageError that lists them."""
    full = "product" if name == "prod" else name
    if full not in REDUCTIONS:
        raise UsageError(f"there is no reduction {name!r}: {mend(name, REDUCTIONS)}")
    return full
