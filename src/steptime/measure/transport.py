"""BenchTransport: the calls that a measurement makes of a communication library."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from steptime.collectives.execute import Transport, Vector
from steptime.dtypes import Dtype
from steptime.measure.operation import Operation

Run = Callable[[], None]
"""Carries out one operation on vectors that it was made for."""


@dataclass(frozen=True)
class Call:
    """One operation on given vectors: its input, its output, and its reduction."""

    operation: Operation
    send: Vector
    receive: Vector
    count: int
    root: int
    reduction: str
    in_place: bool


class BenchTransport(Transport, Protocol):
    """A Transport among all ranks, with the library's own collectives and vectors.

    Vectors are torch tensors or NumPy arrays, as the library has them.
    """

    rank: int
    ranks: int
    library: str
    """The name and version of the library that moves the data."""

    def empty(self, elements: int, dtype: Dtype) -> Vector:
        """A new 1-D vector."""

    def buffer(self, elements: int, dtype: Dtype) -> Vector:
        """A new 1-D vector where the library's own collectives are fastest, if requested."""

    def write(self, vector: Vector, numbers: NDArray[np.float64]) -> None:
        """Copy numbers into a vector of the same length."""

    def read(self, vector: Vector) -> NDArray[np.float64]:
        """The numbers in a vector."""

    def builtin(self, call: Call) -> Run | None:
        """The library's own collective for ``call``; None where it has none in place."""

    def reducer(self, reduction: str) -> Callable[[Vector, Vector], None]:
        """A function that reduces elementwise into its first argument; for ``avg`` it adds."""

    def divide(self, vector: Vector, divisor: int) -> None:
        """Divide a vector in place."""

    def finish(self) -> None:
        """Wait until all calls started here are done, on a GPU too."""

    def barrier(self) -> None:
        """Wait until every rank is here."""

    def gather(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Every rank's numbers, shape (ranks, *shape of numbers), on every rank."""
