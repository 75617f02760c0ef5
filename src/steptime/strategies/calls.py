"""What a strategy calls: its functions carried out on vectors that have a length and no values."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from steptime.strategies.span import Span
from steptime.strategies.strategy import Communicator, Strategy, Vector, Work

Movement: TypeAlias = Callable[[Communicator, Vector], Iterable[Work]]


@dataclass(frozen=True)
class Call:
    """A collective on so many ``elements`` of the whole vector."""

    kind: str
    elements: int
    root: int = 0


def calls(movement: Movement, elements: int, ranks: int) -> tuple[Call, ...]:
    """What a movement of a bucket of so many elements asks of so many ranks, in order."""
    written = _WrittenDown(ranks)
    for work in movement(written, _Length(elements)):
        work.wait()
    return tuple(written.made)


def not_simulated(strategy: Strategy) -> str:
    """Why no Program can be made of a strategy, empty where one can: it says so, or a trial does.

    Its functions then do something with tensors that is no call, so that nobody knows what it
    takes.
    """
    if strategy.not_simulated:
        return strategy.not_simulated
    movements = (strategy.reduce, strategy.share, strategy.gather)
    try:
        for movement in filter(None, movements):
            calls(movement, 12, 3)
        strategy.owned(Span(0, 12), 1, 3)
    except Exception as error:
        words = " ".join(str(error).split())
        return f"what it does with tensors is not known ({type(error).__name__}: {words})"
    return ""


@dataclass(frozen=True)
class _Length:
    """Stands for a 1-D tensor."""

    elements: int

    def __len__(self) -> int:
        return self.elements

    def numel(self) -> int:
        return self.elements

    def __getitem__(self, part: slice) -> "_Length":
        return _Length(len(range(self.elements)[part]))

    def chunk(self, chunks: int, /) -> list["_Length"]:
        """As torch cuts: parts of one size but the last, and maybe fewer."""
        size = max(1, -(-self.elements // chunks))
        starts = range(0, max(1, self.elements), size)
        return [_Length(min(size, self.elements - start)) for start in starts]


class _Done:
    def wait(self) -> None:
        pass


@dataclass
class _WrittenDown:
    """A communicator that notes what is asked for, and has done it at once."""

    ranks: int
    made: list[Call] = field(default_factory=list)

    def all_reduce(self, vector: _Length, /) -> Work:
        return self._note("all_reduce", vector)

    def reduce(self, vector: _Length, /, root: int) -> Work:
        return self._note("reduce", vector, root)

    def broadcast(self, vector: _Length, /, root: int) -> Work:
        return self._note("broadcast", vector, root)

    def reduce_scatter(self, vector: _Length, /) -> Work:
        return self._note("reduce_scatter", vector)

    def all_gather(self, vector: _Length, /) -> Work:
        return self._note("all_gather", vector)

    def barrier(self) -> Work:
        return self._note("barrier", _Length(0))

    def _note(self, kind: str, vector: _Length, root: int = 0) -> Work:
        self.made.append(Call(kind, len(vector), root))
        return _Done()
