"""``steptime.bench``: collectives timed and checked on live ranks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from steptime.api.cells import frame_of_rows, html_of
from steptime.api.running import Backend, answer_of_ranks, started_here
from steptime.errors import SteptimeError, UsageError
from steptime.measure.options import BenchOptions
from steptime.measure.table import flat
from steptime.turns import TurnOptions

if TYPE_CHECKING:
    from rich.console import Console

    from steptime.measure.bench import Row


@dataclass(frozen=True, repr=False)
class Benchmark:
    """Times of an operation: a row for each size and algorithm.

    ``measured`` are the rows, typed; ``content`` is what the run.json of `steptime bench` holds,
    ``text`` what it prints.
    """

    measured: "Sequence[Row]"
    content: Mapping[str, Any]
    text: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A flat row for each size and algorithm, as ``--csv`` writes them."""
        return [flat(row) for row in self.content["rows"]]

    def to_pandas(self) -> Any:
        """A DataFrame of ``rows``; UsageError where there is no pandas."""
        return frame_of_rows(self.rows)

    def print(self, console: "Console") -> None:
        """Print the columns of nccl-tests."""
        console.print(self.text, soft_wrap=True)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return html_of(self.print)


def bench(
    op: str = "all_reduce",
    *,
    ranks: int = 4,
    backend: Backend = "gloo",
    threads: int = 1,
    algorithms: str = "builtin",
    minbytes: str = "4",
    maxbytes: str = "16MiB",
    stepfactor: float = 4.0,
    iters: int = 20,
    warmup_iters: int = 2,
    reduction: str = "sum",
    datatype: str = "float32",
    root: int = 0,
    turns: int | None = None,
    see: str | None = None,
    within: str | None = None,
    seed: int = 0,
    timeout: float | str = "5min",
) -> Benchmark:
    """Time a collective on live ranks of this machine, with every result checked.

    ``op``: all_reduce, all_gather, reduce_scatter, broadcast, reduce, gather, scatter, all_to_all,
    barrier or sendrecv. ``algorithms``, with commas: builtin for the library's own, names as
    ``st.verify`` knows them, or files of your own; all, every one that serves the ranks. Sizes go
    from ``minbytes`` to ``maxbytes``, each ``stepfactor`` times the last.

    Several algorithms take ``turns``, ten unless told otherwise, in orders drawn from ``seed``;
    with ``see="5%"`` as many as it takes to nearly always tell a difference of that much,
    of which with ``within="10min"`` none begins later.

    Raises what ``st.run`` raises, UsageError where this cannot be measured, and SteptimeError where
    a result is wrong.

    >>> times = st.bench("all_reduce", ranks=2, minbytes="1MiB", maxbytes="1MiB", iters=3)
    >>> times.measured[0].out_of_place.wrong
    0
    """
    options = BenchOptions(
        minbytes=minbytes,
        maxbytes=maxbytes,
        stepfactor=stepfactor,
        iters=iters,
        warmup_iters=warmup_iters,
        reduction=reduction,
        datatype=datatype,
        root=root,
        seed=seed,
    )
    how = TurnOptions(turns=turns, see=see, within=within)
    if backend == "none":
        raise UsageError("bench measures what communicates: choose gloo, nccl or steptime")
    from steptime.measure.place import check_place

    check_place(options.bench(op, algorithms, ranks, how), backend, ranks, ranks)
    work = partial(_measured, options, how, op, algorithms, backend, threads)
    found = answer_of_ranks(work, ranks=ranks, backend=backend, threads=threads, timeout=timeout)
    return _right(found, algorithms)


def _right(found: Benchmark, algorithms: str) -> Benchmark:
    """What rank 0 brought home; SteptimeError where a result is wrong."""
    from steptime.measure.bench import wrong_in_all

    if wrong := wrong_in_all(found.measured):
        raise SteptimeError(f"{wrong} elements of the results are wrong under {algorithms}")
    return found


def _measured(
    options: BenchOptions,
    how: TurnOptions,
    op: str,
    algorithms: str,
    backend: str,
    threads: int,
) -> Benchmark | None:
    """Measure as one of the ranks; the answer on rank 0."""
    from steptime.measure.place import hosts_of, make_transport
    from steptime.measure.session import record
    from steptime.measure.session import run as measure
    from steptime.measure.table import footer, layout

    transport = make_transport(backend)
    asked = options.bench(op, algorithms, transport.ranks, how)
    printed = layout("nccl", asked, transport.ranks, transport.library)
    lines = [*printed.header]
    session = measure(
        transport, asked, hosts_of(transport), lambda size: lines.extend(printed.lines(size))
    )
    if transport.rank != 0:
        return None
    neighbours = session.machine.message if session.machine else None
    where = {
        **started_here(transport.ranks, backend, threads),
        "library": transport.library,
    }
    return Benchmark(
        session.rows,
        record("bench", asked, session, [], where),
        "\n".join([*lines, footer(session.rows, session.fits, neighbours)]),
    )
