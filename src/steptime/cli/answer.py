"""Leaving a run's files and printing its answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from steptime.api.results import REPORT, Run
from steptime.cli.options import OutputOptions, RankOptions
from steptime.cli.printing import say, say_json
from steptime.cli.ranks import Place
from steptime.errors import SteptimeError
from steptime.runs.record import Place as RecordPlace
from steptime.runs.record import to_json

if TYPE_CHECKING:
    from steptime.api.flows import FlowsResult  # which loads the simulator


def record_place(place: Place, ranks: RankOptions) -> RecordPlace:
    """Where a live run ran, as its record has it."""
    return RecordPlace(
        world_size=place.world.size,
        threads=place.threads,
        backend=ranks.backend,
        launcher=place.world.launcher,
    )


def write_answer(run: Run, out: Path, output: OutputOptions) -> None:
    """Write run.json, trace.json.gz, its programs and report.html, then print the answer.

    Raises SteptimeError when that cannot be, or the ranks ended with different parameters.
    """
    with _writing(out):
        run = run.written_to(out)
    hashes = {name: set(figures.parameter_hash) for name, figures in run.strategies.items()}
    diverged = [name for name, different in hashes.items() if len(different) > 1]
    if not output.json:
        say(f"{output.rendered(run.print)}\n\nreport: {out / REPORT}")
    elif not diverged:
        say_json(to_json(run.record))
    if diverged:
        raise SteptimeError(
            f"after training under {diverged[0]} the parameters differ between ranks: "
            f"{out / 'run.json'} holds their hashes; please report this"
        )


def write_flows(found: "FlowsResult", out: Path, output: OutputOptions) -> None:
    """Write run.json and trace.json.gz of simulated flows, then print when each is done.

    Raises SteptimeError when that cannot be.
    """
    found = found.in_folder(out)
    with _writing(out):
        found.write(out)
    if output.json:
        say_json(found.record)
        return
    say(f"{output.rendered(found.print)}\n\nrun: {out}")


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SteptimeError(
            f"cannot write the run to {out}: {error.strerror}; choose another folder with --out"
        ) from None
