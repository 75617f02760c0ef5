"""``steptime.export``: a run for other tools, in their formats."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from steptime.api.cells import html_of, text_of
from steptime.api.results import Run
from steptime.errors import UsageError
from steptime.program.stored import write_programs
from steptime.report.export_lines import export_lines
from steptime.runs import run_folder
from steptime.runs.record import to_json
from steptime.study.export import Tell, export_named
from steptime.study.export import export as write
from steptime.study.options import HowOptions
from steptime.timeline.chrome import quietly, write_chrome_trace

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, eq=False, repr=False)
class ExportedFiles:
    """The ``files`` that were written of a run, and in ``record`` what ``--json`` says of them."""

    files: Sequence[Path]
    record: Mapping[str, Any]

    @property
    def opened_by(self) -> str:
        """What to do with them."""
        return export_named(self.record["to"]).opened_by

    def print(self, console: "Console") -> None:
        """Print what was written, the files with their sizes, and what opens them."""
        from rich.text import Text

        lines = [*export_lines(self.record, console.width), self.opened_by]
        console.print(Text("\n".join(lines)), soft_wrap=True)

    def __repr__(self) -> str:
        return text_of(self.print)

    def _repr_html_(self) -> str:
        return html_of(self.print)


def export(
    run: Run | str | Path,
    to: str,
    out: str | Path | None = None,
    *,
    strategy: str | None = None,
    algorithm: str = "",
    per_rank: bool = False,
    tell: Tell = quietly,
) -> ExportedFiles:
    """Give a run to other tools, as files in a format of theirs.

    ``run``: one in memory, or the folder of a run of steps; for weights the folder of a training,
    or one of its checkpoints. ``to``: perfetto, paraver, csv or parquet for what happened when;
    chakra, goal or atlahs for the program of the step; hugging_face for the weights. ``out``: a
    folder, or a file that ends as the format does; default: export in the folder of the run.
    ``strategy``: the one whose program is written; default: each that ran. ``algorithm``: those of
    collectives for goal and atlahs, as ``"all_reduce=ring"``. ``per_rank``: a Chrome trace for each
    rank. ``tell`` hears how much of how much is done.

    Raises UsageError where there is no such run or format, the run has not what the format needs,
    or the format takes no such option, and OSError where the files cannot be written.

    >>> run = st.simulate("gpt2-nano", "laptop", ranks=2, strategy="replicated", batch=8)
    >>> found = st.export(run, "csv", "tables")
    >>> [path.name for path in found.files], found.record["ranks"]
    (['intervals.csv', 'messages.csv'], 2)
    """
    algorithms = HowOptions(algorithm=algorithm).algorithms()
    if isinstance(run, Run) and out is None:
        raise UsageError("a run in memory has no folder to write to: say where with out")
    with _folder_of(run) as folder:
        done = write(
            folder,
            to,
            None if out is None else Path(out),
            strategy=strategy,
            algorithms=algorithms,
            per_rank=per_rank,
            tell=tell,
        )
    of = {"run": run.record.run or None} if isinstance(run, Run) else {}
    return ExportedFiles(done.files, done.record(folder) | of)


@contextmanager
def _folder_of(run: Run | str | Path) -> Iterator[Path]:
    """The folder of a run, for what is in memory a temporary one without its page."""
    if not isinstance(run, Run):
        yield Path(run)
        return
    with TemporaryDirectory(prefix="steptime-") as temporary:
        folder = Path(temporary)
        write_programs(folder, run.programs)
        run_folder.write_record(folder, to_json(run.record))
        if run.timeline is not None:
            write_chrome_trace(folder / run_folder.TRACE, run.timeline)
        yield folder
