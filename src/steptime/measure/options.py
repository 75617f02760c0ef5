"""Options of a benchmark: frozen, checked, and free of torch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime.dtypes import dtype_named
from steptime.errors import UsageError
from steptime.limits import check_limits
from steptime.measure.operation import Operation, operation_named, reduction_named
from steptime.measure.sizes import Sweep, parse_size
from steptime.turns import TurnOptions

if TYPE_CHECKING:
    from steptime.collectives import Algorithm
    from steptime.measure.bench import Bench

_FACTOR = 4.0
_TURNS = TurnOptions()


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What is measured; the short options are those of nccl-tests."""

    minbytes: Annotated[str, Parameter(alias="-b")] = "4"
    """Smallest size, such as 64KiB, or as nccl-tests has it 64K."""

    maxbytes: Annotated[str, Parameter(alias="-e")] = "16MiB"
    """Largest size."""

    stepbytes: Annotated[str | None, Parameter(alias="-i")] = None
    """Each size is so many bytes more than the last."""

    stepfactor: Annotated[float | None, Parameter(alias="-f")] = None
    """Each size is so many times the last; default: 4."""

    iters: Annotated[int, Parameter(alias="-n")] = 20
    """Timed operations of each size."""

    warmup_iters: Annotated[int, Parameter(alias="-w")] = 2
    """Operations before them that are not timed."""

    check: Annotated[int, Parameter(alias="-c")] = 1
    """How often results are checked, outside of the timing; 0: never."""

    reduction: Annotated[str, Parameter(name=["--reduction", "--op", "-o"])] = "sum"
    """sum, avg, min, max or product."""

    datatype: Annotated[str, Parameter(alias="-d")] = "float32"
    """float32, float64, float16, bfloat16, int8, uint8, int32 or int64, or nccl-tests' name."""

    root: Annotated[int, Parameter(alias="-r")] = 0
    """The root of broadcast, reduce, gather and scatter."""

    average: Annotated[int, Parameter(alias="-a")] = 1
    """Whose time is reported: 0 that of rank 0, 1 the mean of all ranks, 2 the least, 3 the
    most."""

    local_register: Annotated[int, Parameter(alias="-R")] = 0
    """1: buffers of the library's own collectives lie in the arena of the backend steptime, where
    these need no copy."""

    seed: int = 0
    """The order in which several algorithms take turns is drawn from it."""

    def __post_init__(self) -> None:
        check_limits(self)
        if self.average not in range(4):
            raise UsageError(f"--average is {self.average}: it must be 0, 1, 2 or 3")
        if self.local_register not in (0, 1):
            raise UsageError(f"--local-register is {self.local_register}: it must be 0 or 1")
        reduction_named(self.reduction)
        dtype_named(self.datatype)
        self.sweep()

    def sweep(self) -> Sweep:
        """The sizes asked for."""
        step = None if self.stepbytes is None else parse_size(self.stepbytes)
        factor = self.stepfactor if step or self.stepfactor else _FACTOR
        return Sweep(parse_size(self.minbytes), parse_size(self.maxbytes), factor, step)

    def bench(self, op: str, algorithms: str, ranks: int, turns: TurnOptions = _TURNS) -> "Bench":
        """What is measured on so many ranks; ``algorithms``: see ``chosen_algorithms``.

        ``turns``: how several of them take turns. Raises UsageError when the operation or an
        algorithm is unknown or cannot serve the ranks, the root is no rank, the reduction does not
        suit the datatype, or there are more turns than operations.
        """
        from steptime.measure.bench import Bench
        from steptime.measure.timing import Average, Effort

        operation, dtype = operation_named(op), dtype_named(self.datatype)
        reduction = reduction_named(self.reduction)
        if not 0 <= self.root < ranks:
            raise UsageError(f"--root {self.root} is no rank: there are ranks 0 to {ranks - 1}")
        if operation.reduces and reduction == "avg" and not dtype.epsilon:
            raise UsageError(f"there is no avg of {dtype.name}: choose a float type, or sum")
        if not operation.moves:
            dtype = dtype_named("uint8")
        asked = Bench(
            operation=operation,
            dtype=dtype,
            reduction=reduction if operation.reduces else "sum",
            root=self.root if operation.rooted else 0,
            sizes=tuple(self.sweep().sizes()),
            algorithms=chosen_algorithms(algorithms, operation, ranks),
            effort=Effort(self.warmup_iters, self.iters),
            checks=self.check,
            average=Average(self.average),
            registered=bool(self.local_register),
            turns=turns,
            seed=self.seed,
        )
        asked.blocks(len(asked.algorithms))
        return asked


def chosen_algorithms(
    words: str, operation: Operation, ranks: int
) -> "tuple[Algorithm | None, ...]":
    """The algorithms that ``words`` name, with commas; None stands for the library's own.

    A word is ``builtin``, the name of a shipped algorithm, FILE.py or FILE.xml; ``all`` alone:
    every one that can serve so many ranks.

    Raises UsageError for one that is unknown or cannot serve so many ranks; it lists those that
    can.
    """
    from steptime.collectives import COLLECTIVES
    from steptime.collectives.algorithm import algorithms
    from steptime.collectives.lookup import is_own
    from steptime.collectives.selection import BUILTIN, check_servable, servable

    collective = operation.name
    known = algorithms(collective) if collective in COLLECTIVES else {}
    able = servable(collective, ranks) if known else [BUILTIN]
    chosen: list[Algorithm | None] = []
    for word in able if words == "all" else dict.fromkeys(words.split(",")):
        if word == BUILTIN:
            chosen.append(None)
        elif is_own(word):
            chosen += _of_file(word, collective, ranks)
        elif not known:
            raise UsageError(f"{collective} has no algorithms to choose from: use {BUILTIN}")
        else:
            check_servable(word, collective, ranks)
            chosen.append(known[word])
    names = [algorithm.name if algorithm else BUILTIN for algorithm in chosen]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"two algorithms are called {twice[0]!r}: give yours another name")
    return tuple(chosen)


def _of_file(path: str, collective: str, ranks: int) -> "list[Algorithm]":
    from steptime.collectives.lookup import find_algorithms

    found = find_algorithms(path, collective)
    for algorithm in found:
        if not algorithm.serves(ranks):
            raise UsageError(
                f"the {collective} {algorithm.name!r} of {path} cannot serve {ranks} "
                "ranks: choose another number with --ranks"
            )
    return found
