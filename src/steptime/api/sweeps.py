"""``steptime.sweep``: a function of steptime, or any other, for every combination of arguments."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from steptime.api.cells import Track, frame_of_rows, html_of, text_of, untracked
from steptime.errors import UsageError
from steptime.points.cache import Cache
from steptime.points.codec import Pickled
from steptime.points.identity import with_files
from steptime.points.options import SweepOptions
from steptime.points.sweep import points

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from rich.console import Console

T = TypeVar("T")


@dataclass(frozen=True)
class Cell(Generic[T]):
    """One combination: what was varied, and its result, or in a sentence why there is none."""

    arguments: Mapping[str, Any]
    result: T | None
    refused: str | None

    @property
    def row(self) -> dict[str, Any]:
        """What was varied, then the figures of the result, or why it was refused."""
        figures = getattr(self.result, "row", None)
        if self.result is not None and figures is None:
            figures = {"result": self.result}
        return {**self.arguments, **(figures or {}), "refused": self.refused or ""}


@dataclass(frozen=True, repr=False)
class Sweep(Generic[T]):
    """All combinations, in the order in which the arguments were given, the last varying first."""

    cells: tuple[Cell[T], ...]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each combination, all with the same columns."""
        rows = [cell.row for cell in self.cells]
        columns = list(dict.fromkeys(name for row in rows for name in row if name != "refused"))
        if any(row["refused"] for row in rows):
            columns.append("refused")
        return [{name: row.get(name) for name in columns} for row in rows]

    def to_pandas(self) -> Any:
        """A DataFrame of ``rows``; UsageError where there is no pandas."""
        return frame_of_rows(self.rows)

    def print(self, console: "Console") -> None:
        """Print the table."""
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        rows = self.rows
        for name in rows[0]:
            numbers = any(isinstance(row[name], int | float) for row in rows)
            table.add_column(name.removesuffix("_s"), justify="right" if numbers else "left")
        for row in rows:
            unfit = "bold red" if row.get("fits") is False else None
            table.add_row(*(_written(name, value) for name, value in row.items()), style=unfit)
        console.print(table)

    def __repr__(self) -> str:
        return text_of(self.print)

    def _repr_html_(self) -> str:
        return html_of(self.print)


def sweep(
    function: Callable[..., T],
    *,
    track: Track = untracked,
    jobs: "int | str | Executor" = 1,
    cache: Path | str | None = None,
    **arguments: Any,
) -> Sweep[T]:
    """Call ``function`` for every combination of its arguments; the result is a table.

    An argument that is a list, a tuple or a range is varied, every other is the same in all calls.
    A combination that the function refuses (UsageError) is a row with the reason. The figures of a
    row are those of the result's ``row`` where it has one, as what ``st.simulate`` returns.
    ``track`` may show progress, as tqdm.

    ``jobs``: how many are worked out at a time, by as many processes here, by a Slurm array as
    ``"slurm:64"``, or by any executor of ``concurrent.futures``; under ``mpirun -n N python -m
    mpi4py.futures`` the ranks take them. ``cache``: a folder of your own that keeps each as soon as
    it is done, by the function's source and the arguments: a sweep that was ended goes on from
    there. Raises SteptimeError where a worker dies.

    >>> several = {"strategy": ["sharded", "overlapped"], "tensor": [1, 3]}
    >>> table = st.sweep(st.simulate, model="gpt2", cluster="dgx-h100-pod", ranks=8, **several)
    >>> [cell.refused is None for cell in table.cells]
    [True, False, True, False]
    """
    varied = {name: value for name, value in arguments.items() if _is_several(value)}
    if empty := [name for name, values in varied.items() if not len(values)]:
        raise UsageError(f"{empty[0]} has no values to go through: give at least one")
    combinations = [dict(zip(varied, values, strict=True)) for values in product(*varied.values())]
    kept = None if cache is None else Path(cache)
    with _executor(jobs, kept) as executor:
        found = points(
            partial(_cell, function, arguments),
            combinations,
            Pickled(),
            executor=executor,
            cache=None if kept is None else Cache(kept),
            identities=lambda one: (function, _identity({**arguments, **one})),
            named="st.sweep",
        )
        under_way = zip(track(combinations, "combinations"), found, strict=True)
        return Sweep(tuple(done.result for _, done in under_way))


@contextmanager
def _executor(jobs: "int | str | Executor", cache: Path | None) -> "Iterator[Executor | None]":
    """Who works out the combinations; another's executor is left as it is."""
    if not isinstance(jobs, int | str):
        yield jobs
        return
    with SweepOptions(jobs=str(jobs), cache=cache).executor() as executor:
        yield executor


def _identity(arguments: Mapping[str, Any]) -> list[object]:
    return [(name, with_files(value)) for name, value in sorted(arguments.items())]


def _is_several(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _cell(
    function: Callable[..., T], arguments: Mapping[str, Any], varied: Mapping[str, Any]
) -> Cell[T]:
    try:
        return Cell(varied, function(**{**arguments, **varied}), None)
    except UsageError as error:
        return Cell(varied, None, str(error))


def _written(name: str, value: object) -> str:
    from steptime.units import format_seconds

    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        return format_seconds(value) if name.endswith("_s") else f"{value:.4g}"
    return str(value)
