"""What the verbs that measure share."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from steptime import files
from steptime.cli.options import OutputOptions, RankOptions
from steptime.cli.printing import say, writing
from steptime.cli.ranks import Place
from steptime.runs import run_folder
from steptime.world import detect

REPORT = "report.html"


def ranks_here(ranks: int) -> int:
    """How many of the ranks this host holds, as far as is known."""
    world = detect(os.environ)
    return world.local_size if world else ranks


def teller(rank: int, output: OutputOptions, *, aside: bool) -> Callable[[str], None]:
    """What prints for a person, on rank 0: on stdout, or ``aside`` where a program reads that."""

    def tell(text: str) -> None:
        if rank == 0 and not aside:
            say(text)
        elif rank == 0 and not output.quiet:
            print(text, file=sys.stderr, flush=True)

    return tell


def oversubscription(place: Place) -> list[str]:
    """A line that says so where this host has more ranks than cores."""
    ranks, cores = place.world.local_size, len(os.sched_getaffinity(0))
    if ranks <= cores:
        return []
    return [f"# {ranks} ranks share {cores} cores here: times include waiting for a core"]


def columns_of_stdout() -> int | None:
    """How wide a person's terminal is; None where a file or a program reads."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    return None


def provenance(place: Place, ranks: RankOptions) -> Mapping[str, Any]:
    """Where a measurement was made, for its record."""
    return {
        "run": str(place.out),
        "backend": ranks.backend,
        "ranks": place.world.size,
        "threads": place.threads,
        "launcher": place.world.launcher,
    }


def write_measured(out: Path, record: Mapping[str, Any]) -> None:
    """Write run.json and, beside it, its page; SteptimeError when that cannot be."""
    from steptime.report.bench_page import write_bench

    with writing(out):
        run_folder.write_record(out, record)
        write_bench(out / REPORT, record)


def write_text(path: str, text: str) -> None:
    """Write a file, or stdout for ``-``; SteptimeError when that cannot be."""
    if path == "-":
        say(text.rstrip("\n"))
        return
    with writing(Path(path)):
        files.write_atomic(Path(path), text.encode())
