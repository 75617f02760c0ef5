"""``steptime.diff``: did the step time change, from runs that are there or that take turns."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from steptime.api.arguments import part_of
from steptime.api.cells import frame_of_rows, html_of, text_of
from steptime.api.results import REPORT, Run
from steptime.errors import UsageError
from steptime.ratios import CONFIDENCE, LEAST_PAIRS, MOST_PAIRS, RUN_TO_RUN, as_ratio
from steptime.report.diff_lines import print_diff
from steptime.report.diff_page import write_diff
from steptime.runs import run_folder
from steptime.study.diff import Diff, compared
from steptime.study.diff import diff as compare
from steptime.study.diff_against import check_command, checkout, resolve, take_turns, worktree
from steptime.study.diff_runs import TimedRun, read_run, read_runs, read_side, timed_run
from steptime.turns import limit_of
from steptime.units import parse_percentage
from steptime.world import detect

if TYPE_CHECKING:
    from rich.console import Console

One: TypeAlias = Run | str | Path
_PAIRS = 15
"""How often each takes its turn, unless told otherwise."""


@dataclass(frozen=True, eq=False, repr=False)
class Difference:
    """How much longer B's step takes than A's, phase by phase, and how sure that is.

    ``found`` is what the statistics say; ``about`` what its record says besides: where it lies,
    which revisions took turns, which limit it was held against.
    """

    found: Diff
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """B's step time over A's."""
        return self.found.ratio

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the ratio's 95 % interval; both are the ratio where steps are simulated."""
        low, high = self.found.change.interval(CONFIDENCE)
        return as_ratio(low), as_ratio(high)

    @property
    def different(self) -> bool:
        """Whether it is safe to say that the step times differ."""
        return self.found.different

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for the step, for each phase of it, and for each part of exposed communication."""
        told = self.found.record()
        a, b = told["step_time_s"]["a"], told["step_time_s"]["b"]
        step = {
            "a_s": a,
            "b_s": b,
            "difference_s": b - a,
            "ci95_s": [a * (end - 1) for end in self.interval],
            "share": 1.0 if self.different else None,
            "different": self.different,
        }
        parts = [("step", "", step)]
        parts += [(name, "step", row) for name, row in told["phases"].items()]
        parts += [(name, "exposed_comm", row) for name, row in told["exposed"].items()]
        return [{"phase": name, "of": whole} | _flat(row) for name, whole, row in parts]

    @property
    def record(self) -> dict[str, Any]:
        """All of it, as ``--json`` has it."""
        return self.found.record() | dict(self.about)

    def slower_by_more(self, limit: float | str) -> bool:
        """Whether B is different and takes longer by more than a part of A's step, as ``"5%"``."""
        return self.found.slower_by_more(part_of(limit, "fail-over"))

    def held_against(self, limit: float | str) -> "Difference":
        """The same, whose record and page say whether B is slower by more than this."""
        held = {"fail_over": part_of(limit, "fail-over"), "failed": self.slower_by_more(limit)}
        return replace(self, about={**self.about, **held})

    def to_pandas(self) -> Any:
        """A DataFrame of ``rows``; UsageError where there is no pandas."""
        return frame_of_rows(self.rows)

    def report(self, path: str | Path) -> Path:
        """Write its page to a file: one of HTML that needs no network."""
        write_diff(Path(path), self._written())
        return Path(path)

    def write(self, out: Path) -> None:
        """Write run.json and report.html to a folder that is there; OSError where that fails."""
        record = self._written()
        run_folder.write_record(out, record)
        write_diff(out / REPORT, record)

    def _written(self) -> dict[str, Any]:
        return self.record | {"environment": run_folder.environment()}

    def in_folder(self, folder: Path) -> "Difference":
        """The same, whose record says that it lies in this folder."""
        return replace(self, about={"run": "", **self.about} | {"run": str(folder)})

    def save(self, folder: str | Path) -> Path:
        """Write a folder of its own: run.json and report.html."""
        out = run_folder.create(Path(folder))
        self.in_folder(out).write(out)
        return out

    def print(self, console: "Console") -> None:
        """Print the verdict, the phases, and how sure that is."""
        print_diff(console, self.record)

    def __repr__(self) -> str:
        return text_of(self.print)

    def _repr_html_(self) -> str:
        return html_of(self.print)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the record with the ends of its interval in columns of their own."""
    low, high = row["ci95_s"]
    return {name: value for name, value in row.items() if name != "ci95_s"} | {
        "low_s": low,
        "high_s": high,
    }


def diff(
    a: One | Iterable[One],
    b: One | Iterable[One],
    *,
    strategy: str | None = None,
    run_to_run: float | str | None = None,
) -> Difference:
    """Did the step time change? Tell the ratio of B's step to A's with its interval, and why.

    ``a`` and ``b``: a run, in memory or its folder, a folder of several, another tool's trace, or a
    list of these, which may be a text with commas. ``strategy``: the one to compare, where the runs
    have several. ``run_to_run``: the standard deviation between equal runs, as 0.025 or ``"2.5%"``,
    which is that unless told otherwise; read where there is one run of each, which cannot show it.

    Raises UsageError where the runs did not do the same work, have too few steps for an interval,
    or nothing says which strategy is meant.

    >>> machine = {"model": "gpt2-124M", "cluster": "dgx-h100", "ranks": 8}
    >>> before = st.simulate(**machine, strategy="replicated")
    >>> found = st.diff(before, st.simulate(**machine, strategy="overlapped"))
    >>> found.different, found.ratio < 1, found.slower_by_more("5%")
    (True, True, False)
    """
    floor = None if run_to_run is None else part_of(run_to_run, "run-to-run")
    one, other = (_runs(side, strategy) for side in (a, b))
    if floor is not None and len(one) + len(other) > 2:
        raise UsageError("--run-to-run is about one run of each, and there is none: leave it out")
    return Difference(compare(one, other, run_to_run=RUN_TO_RUN if floor is None else floor))


def _runs(side: One | Iterable[One], strategy: str | None) -> list[TimedRun]:
    if isinstance(side, Run):
        record = side.record
        name = record.run or f"{record.verb} of {record.work.model}"
        return [timed_run(Path(name), record, side.timeline, strategy)]
    if isinstance(side, str):
        return read_side(side, strategy)
    if isinstance(side, Path):
        return read_runs(side, strategy)
    return [run for one in side for run in _runs(one, strategy)]


def unheard(what: str, most: int) -> None:
    """Nobody hears which run is next."""


def diff_against(
    revision: str,
    *command: str,
    pairs: int | None = None,
    see: str | None = None,
    within: str | None = None,
    strategy: str | None = None,
    out: str | Path | None = None,
    tell: Callable[[str, int], None] = unheard,
) -> Difference:
    """Let a git revision of steptime, A, and the steptime that runs, B, take turns with a command.

    ``command``: the words of a train, compare or proxy. Each runs ``pairs`` times, by default 15;
    with ``see="5%"`` as often as it takes to nearly always tell a difference of that much, 60 times
    at most, and with ``within="10min"`` no pair begins later. ``out``: the folder of all these
    runs; default: runs/diff-TIME. ``tell`` hears of each run before it starts, and of how many runs
    there may be.

    Raises UsageError where steptime does not run from a git checkout or that has no such revision,
    and SteptimeError where a run fails.
    """
    limit_s = limit_of(within, see)
    part = None if see is None else parse_percentage(see, "see")
    if detect(os.environ):
        raise UsageError("--against starts runs of its own: run it without a launcher")
    most = _most_pairs(pairs, part)
    check_command(command)
    tree = checkout()
    commit = resolve(tree, revision, command[0])
    path = Path(out) if out else run_folder.default_path("diff", datetime.now())
    with run_folder.created(path) as folder, worktree(tree, commit) as other:
        sides = {"a": other, "b": tree.root / tree.source}
        folders = take_turns(sides, command, most, folder, lambda what: tell(what, 2 * most))
        runs = ((read_run(of["a"], strategy), read_run(of["b"], strategy)) for of in folders)
        found = compared(runs, part, limit_s)
    about = {"against": revision, "commit": commit, "command": list(command)}
    asked = {} if part is None else {"see": part}
    return Difference(found, about | asked).in_folder(folder)


def _most_pairs(pairs: int | None, see: float | None) -> int:
    """How often each may run. Raises UsageError where that tells nothing."""
    most = pairs if pairs is not None else _PAIRS if see is None else MOST_PAIRS
    if most < 2:
        raise UsageError(f"--pairs is {most}: it takes 2 or more to see how runs vary")
    if see == 0:
        raise UsageError("--see is 0%, which no number of runs would show: write more, as 5%")
    if see is not None and most < LEAST_PAIRS:
        raise UsageError(
            f"--pairs is {most}, and --see takes {LEAST_PAIRS} to know how many it needs: give as "
            "many or more, or leave --pairs out"
        )
    return most
