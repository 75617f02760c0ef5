"""What a run gives: figures, timeline, page; whether it was simulated, measured or read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steptime.api.cells import frame_of_rows, html_of, text_of
from steptime.errors import UsageError
from steptime.program.stored import StoredProgram, read_programs, write_programs
from steptime.record.start import FOLDER
from steptime.record.traces.opening import may_be_trace
from steptime.report.read import read_runs
from steptime.runs import run_folder
from steptime.runs.figures import PARTS
from steptime.runs.record import RunRecord, to_json
from steptime.timeline import Timeline, write_chrome_trace

if TYPE_CHECKING:
    from rich.console import Console

    from steptime.runs.figures import StepFigures

REPORT = "report.html"


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A run of steps: simulated, measured here, or read from its folder.

    ``record`` says what ran, on what, and what came out; ``timeline`` what happened when, None
    where the folder has none that could be read; ``programs`` are its steps as data.
    """

    record: RunRecord
    timeline: Timeline | None
    programs: Sequence[StoredProgram] = ()

    @property
    def strategies(self) -> "Mapping[str, StepFigures]":
        """The figures of every strategy that ran, by its name."""
        return self.record.strategies

    @property
    def figures(self) -> "StepFigures":
        """The figures of the fastest strategy, or of the one that seems so where some are level."""
        return self.record.best

    @property
    def step_s(self) -> float:
        """The seconds of its median step."""
        return self.figures.step_time_s.median

    @property
    def row(self) -> dict[str, Any]:
        """The same as a row of a table."""
        return self.rows[list(self.strategies).index(self.record.fastest)]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each strategy: its step, and where its seconds go."""
        return [
            {
                "strategy": name,
                "step_s": one.step_time_s.median,
                **{part: getattr(one, part) for part in PARTS},
                "tokens_per_s": one.tokens_per_s,
                "mfu": one.utilisation.mfu if one.utilisation else None,
                "expected_error": one.expected.error if one.expected else None,
                "fits": one.fits,
                "source": one.source,
            }
            for name, one in self.strategies.items()
        ]

    def to_pandas(self) -> Any:
        """A DataFrame of ``rows``; UsageError where there is no pandas."""
        return frame_of_rows(self.rows)

    def report(self, path: str | Path) -> Path:
        """Write its page to a file: one of HTML that needs no network."""
        from steptime.report import write_report

        if self.timeline is None:
            raise UsageError(
                f"{self.record.run} has no timeline that can be read, and a page needs it"
            )
        write_report(Path(path), self.record, self.timeline)
        return Path(path)

    def save(self, folder: str | Path) -> Path:
        """Write a run's folder: run.json, trace.json.gz, the programs and report.html."""
        out = run_folder.create(Path(folder))
        self.written_to(out)
        return out

    def written_to(self, out: Path) -> "Run":
        """This run with its name, written to a folder that is there; OSError as ``write``."""
        run = replace(self, record=replace(self.record, run=str(out)))
        run.write(out)
        return run

    def write(self, out: Path) -> None:
        """Write its files to a folder that is there; OSError where that cannot be."""
        write_programs(out, self.programs)
        run_folder.write_record(out, to_json(self.record))
        if self.timeline is not None:
            write_chrome_trace(out / run_folder.TRACE, self.timeline)
            self.report(out / REPORT)

    def print(self, console: "Console") -> None:
        """Print its table, and what it says in sentences."""
        from steptime.report.terminal import print_run

        print_run(console, self.record)

    def __repr__(self) -> str:
        return text_of(self.print)

    def _repr_html_(self) -> str:
        return html_of(self.print)


def load(folder: str | Path, *, unpickle: bool = False) -> Run:
    """The run that a folder holds, as compare, train, simulate, proxy and record leave it.

    Or the run that a trace of other tools tells of, a file or a folder with a file a rank:
    torch.profiler, the flight recorder, Nsight Systems' SQLite, Chrome's trace events. ``unpickle``
    reads pickled dumps of the flight recorder too, and makes nothing but plain values of them.

    Raises UsageError where there is none, its run.json is not whole, or it is of no run of steps.

    >>> run = st.simulate("gpt2-124M", "dgx-h100-pod", ranks=8, strategy="sharded")
    >>> st.load(run.save("runs/eight")).step_s == run.step_s
    True
    """
    path = Path(folder)
    if may_be_trace(path):
        return traced_run([path], unpickle=unpickle)
    complete(path)
    (read,) = read_runs([path])
    return Run(read.record, read.timeline, tuple(read_programs(path)))


def complete(folder: Path) -> None:
    """Make the answer of a recorded job, in its folder, where no command has made it.

    So it is where a launcher started the ranks, for none knows which of them ends last. Raises
    UsageError where they wrote nothing.
    """
    if (folder / FOLDER).is_dir() and not (folder / run_folder.RECORD).exists():
        recorded_run(folder).write(folder)


def traced_run(paths: Sequence[Path], *, unpickle: bool = False) -> Run:
    """The run that traces of other tools tell of; UsageError where they are none of one job."""
    from steptime.study.traced import read_trace

    return Run(*read_trace(paths, unpickle=unpickle))


def recorded_run(folder: Path) -> Run:
    """The run that a recorded job's folder holds; UsageError where it holds none."""
    from steptime.study.recorded import recorded
    from steptime.study.run_programs import recorded_step, stored_step

    record, timeline = recorded(folder)
    programs: tuple[StoredProgram, ...] = ()
    try:
        step = recorded_step(folder)
        programs, told = (stored_step(step),), step.told
    except UsageError as error:  # what it did is known all the same
        told = f"none: {error}"
    script = replace(record.script, program=told) if record.script else None
    return Run(replace(record, script=script), timeline, programs)
