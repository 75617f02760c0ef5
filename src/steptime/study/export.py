"""A run in the formats of other tools, from the files in its folder alone."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from steptime.errors import UsageError
from steptime.nearest import mend
from steptime.program.stored import PROGRAMS, StoredProgram, read_programs
from steptime.runs import run_folder
from steptime.runs.record import RunRecord, run_record, took_steps
from steptime.runs.run_folder import TRACE
from steptime.study.exports import formats
from steptime.timeline import Timeline, read_chrome_trace
from steptime.timeline.chrome import quietly

Tell: TypeAlias = Callable[[int, int], None]

FOLDER = "export"
"""Where exports of a run go by default, in its folder."""

_NONE_NAMED: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was written: the ``files``, and ``facts`` about them for run tools and people."""

    to: str
    files: tuple[Path, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def record(self, run: Path) -> dict[str, Any]:
        """What is printed as JSON."""
        files = [{"path": str(path), "bytes": path.stat().st_size} for path in self.files]
        return {"verb": "export", "run": str(run), "to": self.to, **self.facts, "files": files}


@dataclass(frozen=True, kw_only=True)
class Exporting:
    """What a format is asked to write, and what of: its ``timeline`` or its ``programs``.

    ``record``: None of a run without steps, as of flows, which ran at ``place``. ``folder`` to
    write to, and the ``name`` of the file in it where the user gave one.
    """

    run: Path
    verb: str
    record: RunRecord | None
    place: str
    to: str
    out: Path | None
    folder: Path
    name: str
    strategy: str | None
    algorithms: Mapping[str, str]
    per_rank: bool
    tell: Tell

    @cached_property
    def timeline(self) -> Timeline:
        """What happened in the run."""
        return read_chrome_trace(self.run / TRACE)

    @cached_property
    def programs(self) -> Sequence[StoredProgram]:
        """The step of the strategy asked for, or of each."""
        return _programs(self.run, self.verb, self.strategy)


@dataclass(frozen=True, kw_only=True)
class Export:
    """A format: ``write`` makes files of a run's timeline, or ``of_programs`` of its programs.

    Or ``of_weights`` of those that a run trained, by its folder, to another folder.

    ``opened_by``: what to do with them. ``suffixes``: how the name of a file ends where the format
    can be one that the user names. ``takes``: of the options ``strategy``, ``algorithms`` and
    ``per_rank`` those that it reads. ``check`` raises UsageError where it cannot be written here.
    """

    opened_by: str
    write: Callable[[Exporting], Iterable[Path]] | None = None
    of_programs: Callable[[Exporting], Exported] | None = None
    of_weights: Callable[[Path, Path], Exported] | None = None
    suffixes: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    check: Callable[[], None] = lambda: None


def export_named(to: str) -> Export:
    """The format of that name; raises UsageError where there is none."""
    if to not in formats():
        raise UsageError(f"there is no format {to!r}: {mend(to, formats())}")
    found: Export = import_module(f"steptime.study.exports.{to}").EXPORT
    return found


def export(
    run: Path,
    to: str,
    out: Path | None = None,
    *,
    strategy: str | None = None,
    algorithms: Mapping[str, str] = _NONE_NAMED,
    per_rank: bool = False,
    tell: Tell = quietly,
) -> Exported:
    """Write a run in a format, to the file or folder ``out``; by default into its own folder.

    ``strategy``: the one whose program is written, of several that ran. ``algorithms``: by
    collective, for GOAL. ``per_rank``: a file a rank, for tools that want them so. ``tell`` hears
    how much of how much is done.

    Raises UsageError where there is no such run, it has not what the format needs, an option is
    not for this format, or the output cannot be written.
    """
    chosen = export_named(to)
    if chosen.of_weights:  # a run under way has them before its record
        _check_options(chosen, to, strategy, algorithms, per_rank)
        folder, _ = _target(chosen, run, to, out, several=True)
        with run_folder.created(folder):
            return chosen.of_weights(run, folder)
    raw = run_folder.read_record(run)
    verb, about = str(raw["verb"]), raw.get("environment", {})
    _check_options(chosen, to, strategy, algorithms, per_rank)
    if chosen.of_programs:
        several = len(_programs(run, verb, strategy)) > 1
    else:
        several = per_rank
        _check_trace(run, verb)
    target, name = _target(chosen, run, to, out, several=several)
    record = run_record(raw, str(run)) if took_steps(raw) else None
    with run_folder.created(target) as folder:
        return _written(
            chosen,
            Exporting(
                run=run,
                verb=verb,
                record=record,
                place=str(raw.get("cluster") or about.get("host") or "host"),
                to=to,
                out=out,
                folder=folder,
                name=name,
                strategy=strategy,
                algorithms=algorithms,
                per_rank=per_rank,
                tell=tell,
            ),
        )


def _written(chosen: Export, asked: Exporting) -> Exported:
    if chosen.of_programs:
        return chosen.of_programs(asked)
    assert chosen.write is not None  # noqa: S101 - a format is of one or the other
    return Exported(to=asked.to, files=tuple(chosen.write(asked)), facts=_facts(asked.timeline))


def _check_options(
    chosen: Export, to: str, strategy: str | None, algorithms: Mapping[str, str], per_rank: bool
) -> None:
    if strategy is not None and "strategy" not in chosen.takes:
        raise UsageError(
            f"--strategy is about a program, and {to} shows the whole run: leave it out"
        )
    if algorithms and "algorithms" not in chosen.takes:
        raise UsageError(f"--algorithm is about goal and atlahs, not {to}: leave it out")
    if per_rank and "per_rank" not in chosen.takes:
        raise UsageError(f"--per-rank is about perfetto, not {to}: leave it out")
    chosen.check()


def _target(
    chosen: Export, run: Path, to: str, out: Path | None, *, several: bool
) -> tuple[Path, str]:
    """The folder to write to, and the name of the file where the user gave one."""
    known = chosen.suffixes
    name = ""
    if out is None:
        folder = run / FOLDER
    elif out.name.endswith(known) and not out.is_dir() and known:
        folder, name = out.parent, out.name
        if several:
            raise UsageError(f"{to} is several files of this run: name a folder with --out")
    else:
        if out.exists() and not out.is_dir():
            raise UsageError(
                f"--out {out} is a file, and {to} needs a folder"
                f"{' or a name that ends in ' + known[0] if known else ''}"
            )
        folder = out
    return folder, name


def _check_trace(run: Path, verb: str) -> None:
    if not (run / TRACE).exists():
        raise UsageError(
            f"{run} has no {TRACE}, for a {verb} leaves none or it was deleted: export "
            "a run of train, compare, simulate or proxy"
        )


def _programs(run: Path, verb: str, strategy: str | None) -> list[StoredProgram]:
    found = read_programs(run)
    if not found:
        raise UsageError(
            f"{run} has no {PROGRAMS}, of which chakra, goal and atlahs are made, for a {verb} "
            "leaves none or it is too large: export it to perfetto, paraver, csv or parquet"
        )
    chosen = [one for one in found if strategy in (None, one.program.name)]
    if not chosen:
        names = ", ".join(one.program.name for one in found)
        raise UsageError(f"{run} has no program {strategy!r}: choose one of {names}")
    return chosen


def _facts(timeline: Timeline) -> dict[str, Any]:
    return {
        "source": timeline.source,
        "ranks": timeline.ranks,
        "intervals": int(timeline.intervals.size),
        "messages": int(timeline.messages.size),
        "clock": [
            {"host": one.host, "offset_s": one.offset_s, "error_s": one.error_s}
            for one in timeline.clocks
        ],
        "early_messages": early_messages(timeline),
    }


def early_messages(timeline: Timeline) -> int:
    """How many messages arrive before they are sent, by more than the clocks may be wrong."""
    error = np.zeros(timeline.ranks)
    for clock in timeline.clocks:
        error[list(clock.ranks)] = clock.error_s
    messages = timeline.messages
    early = messages["sent"] - messages["received"]
    return int((early > error[messages["src"]] + error[messages["dst"]]).sum())


def hosts_of(asked: Exporting) -> list[str]:
    """The host of each rank, as the record tells; of one name where it does not."""
    hosts = [""] * asked.timeline.ranks
    for clock in asked.record.clock if asked.record else ():
        for rank in clock.ranks:
            hosts[rank] = clock.host
    if asked.record and not all(hosts):
        for figures in asked.record.strategies.values():
            for of_rank in figures.ranks:
                hosts[of_rank.rank] = of_rank.host
    return [host or asked.place for host in hosts]


def file_name(name: str) -> str:
    """A name as a file's, without what a path must not have."""
    return re.sub(r"[^\w.+-]+", "-", name).strip("-.") or "step"
