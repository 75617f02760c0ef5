"""``steptime.tune``: which algorithm is the fastest for which size, on live ranks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from steptime.api.cells import frame_of_rows, html_of, text_of
from steptime.api.running import Backend, answer_of_ranks, started_here
from steptime.errors import UsageError
from steptime.measure.options import BenchOptions
from steptime.report.tune_lines import answer, contest_line, header
from steptime.runs import run_folder
from steptime.turns import TurnOptions
from steptime.units import Size

if TYPE_CHECKING:
    from rich.console import Console

    from steptime.collectives.selection import Selection
    from steptime.measure.bench import Bench
    from steptime.measure.contest import Contest
    from steptime.measure.transport import BenchTransport

_HINT = 'level names them; see="5%" takes as many turns as would tell more.'


@dataclass(frozen=True, eq=False, repr=False)
class Tuned:
    """Which algorithm is the fastest for which size.

    ``selection`` names one for every size; it stands on ``contests``, the turns that algorithms
    took at each size. ``library``: name and version of what moved the data. ``record`` is what the
    run.json of `steptime tune` holds.
    """

    selection: "Selection"
    contests: "Sequence[Contest]"
    library: str
    record: Mapping[str, Any]

    @property
    def variable(self) -> str:
        """The environment variable that the backend steptime reads the selection from."""
        return str(self.record["variable"])

    @property
    def environment(self) -> dict[str, str]:
        """That variable with the selection, for ``os.environ``."""
        return {self.variable: str(self.selection)}

    @property
    def level(self) -> dict[str, list[str]]:
        """The algorithms that cannot be told from the fastest, by size; no size that has one."""
        return {
            str(Size(one.size_bytes)): [one.names[at] for at in (one.best, *one.level)]
            for one in self.contests
            if one.level
        }

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A flat row for each size and algorithm: its median time, and that over the fastest's.

        ``level``: it cannot be told from the fastest, or is it. ``against_best`` is None after one
        turn, as its 99 % interval is.
        """
        return [row for one in self.contests for row in _rows(one, self.selection)]

    def to_pandas(self) -> Any:
        """A DataFrame of ``rows``; UsageError where there is no pandas."""
        return frame_of_rows(self.rows)

    def print(self, console: "Console") -> None:
        """Print a line for each size, the selection, and how the backend is told it."""
        lines = [
            *header(self.selection.collective, self.record["ranks"], self.library),
            *map(contest_line, self.contests),
            "",
            answer(self.record, _HINT),
        ]
        console.print("\n".join(lines), soft_wrap=True)

    def __repr__(self) -> str:
        return text_of(self.print)

    def _repr_html_(self) -> str:
        return html_of(self.print)


def tune(
    op: str = "all_reduce",
    *,
    ranks: int = 4,
    backend: Backend = "gloo",
    threads: int = 1,
    algorithms: str = "all",
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
    timeout: float | str = "1h",
) -> Tuned:
    """Find which algorithm is the fastest for which size on live ranks of this machine.

    The arguments are those of ``st.bench``, but that ``op`` has sizes: no sendrecv or barrier.
    Algorithms take turns at each size. Where several cannot be told from the fastest, that of the
    neighbouring size is kept. The backend steptime reads the selection from ``environment``.

    Raises what ``st.run`` raises, UsageError where this cannot be measured, and SteptimeError where
    a result is wrong.

    >>> found = st.tune(ranks=2, algorithms="builtin,ring", minbytes="1MiB", maxbytes="1MiB")
    >>> found.environment == {"STEPTIME_ALL_REDUCE": str(found.selection)}
    True
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
        raise UsageError("tune measures what communicates: choose gloo, nccl or steptime")
    from steptime.measure.place import check_place

    check_place(to_tune(options, how, op, algorithms, ranks), backend, ranks, ranks)
    work = partial(_tuned, options, how, op, algorithms, backend, threads)
    return answer_of_ranks(work, ranks=ranks, backend=backend, threads=threads, timeout=timeout)


def to_tune(
    options: BenchOptions, how: TurnOptions, op: str, algorithms: str, ranks: int
) -> "Bench":
    """What is measured; an algorithm of a file goes by the file's name, as a selection finds it.

    Raises UsageError for an operation without sizes, and what ``BenchOptions.bench`` raises.
    """
    from steptime.collectives.lookup import find_algorithm, is_own

    if op in ("sendrecv", "barrier"):
        raise UsageError(f"{op} has no sizes to select an algorithm for: choose a collective")
    bench = options.bench(op, algorithms, ranks, how)
    own = [word for word in algorithms.split(",") if is_own(word)]
    file_of = {find_algorithm(op, word).name: word for word in own}
    named = (
        algorithm and replace(algorithm, name=file_of.get(algorithm.name, algorithm.name))
        for algorithm in bench.algorithms
    )
    return replace(bench, algorithms=tuple(named))


def tuned(
    transport: "BenchTransport",
    bench: "Bench",
    where: Mapping[str, Any],
    tell: Callable[[str], None],
) -> Tuned | None:
    """Measure as one of the ranks; the answer on rank 0, None on the others.

    ``where``: backend, ranks and so on, for the record. ``tell`` is given the header, and a line
    for each size as soon as it is measured.
    """
    from steptime.measure.place import hosts_of
    from steptime.measure.tune import contests, select

    op = bench.operation.name
    for line in header(op, transport.ranks, transport.library):
        tell(line)
    found = contests(transport, bench, hosts_of(transport), lambda one: tell(contest_line(one)))
    if transport.rank:
        return None
    selection = select(op, found)
    record = _record(bench, selection, found, where)
    return Tuned(selection, found, transport.library, record)


def _tuned(
    options: BenchOptions,
    how: TurnOptions,
    op: str,
    algorithms: str,
    backend: str,
    threads: int,
) -> Tuned | None:
    """What a rank that ``tune`` started does."""
    from steptime.measure.place import make_transport

    transport = make_transport(backend)
    where = started_here(transport.ranks, backend, threads)
    bench = to_tune(options, how, op, algorithms, transport.ranks)
    return tuned(transport, bench, where, lambda _: None)


def _record(
    bench: "Bench", selection: "Selection", found: "Sequence[Contest]", where: Mapping[str, Any]
) -> dict[str, Any]:
    from steptime.measure.session import contests_record

    told = contests_record(bench, found)
    contests = [
        {
            **contest,
            "selected": selection.algorithm(one.size_bytes),
            "fastest": one.names[one.best],
            "time_us": {name: s * 1e6 for name, s in one.medians.items()},
        }
        for one, contest in zip(found, told["contests"], strict=True)
    ]
    return {
        "verb": "tune",
        "source": "measured",
        **where,
        "op": selection.collective,
        "selection": str(selection),
        "variable": f"STEPTIME_{selection.collective.upper()}",
        **told,
        "contests": contests,
        "environment": run_folder.environment(),
    }


def _rows(contest: "Contest", selection: "Selection") -> list[dict[str, Any]]:
    times, unbeaten = contest.medians, {contest.best, *contest.level}
    rows = []
    for at, name in enumerate(contest.names):
        ratio, (low, high) = contest.ratio(at) or (None, (None, None))
        rows.append(
            {
                "size_bytes": contest.size_bytes,
                "algorithm": name,
                "time_us": times[name] * 1e6,
                "against_best": ratio,
                "ci99_low": low,
                "ci99_high": high,
                "level": at in unbeaten,
                "selected": name == selection.algorithm(contest.size_bytes),
            }
        )
    return rows
