"""What a measurement needs of a library that moves data between ranks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from steptime.collectives.execute import Transport, Vector
from steptime.dtypes import Dtype
from steptime.measure.operation import Operation

Run = Callable[[], None]
"""Carries out one operation on vectors that were given before."""


@dataclass(frozen=True)
class Call:
    """One operation on given vectors: its input and its output, and how it reduces."""

    operation: Operation
    send: Vector
    receive: Vector
    count: int
    root: int
    reduction: str
    in_place: bool


class BenchTransport(Transport, Protocol):
    """The Transport among all ranks, with the library's own collectives and kind of vectors.

    Vectors are torch tensors or NumPy arrays, as the library has them.
    """

    rank: int
    ranks: int
    library: str
    """What moves the data, and its version."""

    def empty(self, elements: int, dtype: Dtype) -> Vector:
        """A new 1-D vector."""

    def buffer(self, elements: int, dtype: Dtype) -> Vector:
        """A new 1-D vector where the library's own collectives reach it best, if asked for."""

    def write(self, vector: Vector, numbers: NDArray[np.float64]) -> None:
        """Put numbers into a vector as long."""

    def read(self, vector: Vector) -> NDArray[np.float64]:
        """The numbers in a vector."""

    def builtin(self, call: Call) -> Run | None:
        """The library's own way to carry out ``call``, or None where it has none in place."""

    def reducer(self, reduction: str) -> Callable[[Vector, Vector], None]:
        """What reduces elementwise into its first argument; for ``avg`` it adds up."""

    def divide(self, vector: Vector, divisor: int) -> None:
        """Divide a vector in place."""

    def finish(self) -> None:
        """Wait until what was started here is done, on a GPU too."""

    def barrier(self) -> None:
        """Wait until every rank is here."""

    def gather(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Every rank's numbers, shape (ranks, *shape of numbers), on every rank."""
