"""A run in the formats of other tools, from the files in its folder alone."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from steptime.errors import UsageError
from steptime.files import atomic_file
from steptime.program import Collective, Compute, Recv, Send, Wait
from steptime.program.chakra import write_chakra
from steptime.program.goal import ProgramGoal
from steptime.program.stored import PROGRAMS, StoredProgram, read_programs
from steptime.runs import run_folder
from steptime.timeline import Timeline, read_chrome_trace
from steptime.timeline.chrome import Counter, of_rank, quietly, write_chrome_trace
from steptime.timeline.paraver import write_paraver
from steptime.timeline.tables import (
    check_parquet,
    interval_columns,
    message_columns,
    write_csv,
    write_parquet,
)

Format: TypeAlias = Literal["perfetto", "paraver", "chakra", "goal", "csv", "parquet"]
Tell: TypeAlias = Callable[[int, int], None]

TRACE = "trace.json.gz"
FOLDER = "export"
"""Where exports of a run go by default, in its folder."""

_SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "perfetto": (".json", ".json.gz"),
    "paraver": (".prv",),
    "goal": (".goal",),
}
"""How the name of a file ends where a format can be a file that the user names."""

_OF_A_PROGRAM = ("chakra", "goal")
_NONE_NAMED: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was written: the ``files``, and ``facts`` about them for run tools and people."""

    to: Format
    files: tuple[Path, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def record(self, run: Path) -> dict[str, Any]:
        """What is printed as JSON."""
        files = [{"path": str(path), "bytes": path.stat().st_size} for path in self.files]
        return {"verb": "export", "run": str(run), "to": self.to, **self.facts, "files": files}


def export(
    run: Path,
    to: Format,
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
    record = run_folder.read_record(run)
    _check_options(to, strategy, algorithms, per_rank)
    if to in _OF_A_PROGRAM:
        programs = _programs(run, record, strategy)
        folder, name = _target(run, to, out, several=len(programs) > 1)
        if to == "chakra":
            return _chakra(programs, folder if out else folder / "chakra", tell)
        return _goal(programs, folder, name, algorithms, tell)
    timeline = _timeline(run, record)
    folder, name = _target(run, to, out, several=per_rank)
    facts = _facts(timeline)
    if to == "perfetto":
        files = _perfetto(timeline, record, folder, name, per_rank, tell)
    elif to == "paraver":
        hosts, kinds = hosts_of(record, timeline.ranks), _kinds(run)
        stem = folder / (name or "trace.prv").removesuffix(".prv")
        files = write_paraver(stem, timeline, hosts=hosts, kinds=kinds, tell=tell)
    else:
        files = _tables(timeline, to, folder, tell)
    return Exported(to=to, files=tuple(files), facts=facts)


def _check_options(
    to: str, strategy: str | None, algorithms: Mapping[str, str], per_rank: bool
) -> None:
    if to not in get_args(Format):
        raise UsageError(f"there is no format {to!r}: choose one of {', '.join(get_args(Format))}")
    if strategy is not None and to not in _OF_A_PROGRAM:
        raise UsageError(
            f"--strategy is about a program, and {to} shows the whole run: leave it out"
        )
    if algorithms and to != "goal":
        raise UsageError(f"--algorithm is about goal, not {to}: leave it out")
    if per_rank and to != "perfetto":
        raise UsageError(f"--per-rank is about perfetto, not {to}: leave it out")
    if to == "parquet":
        check_parquet()


def _target(run: Path, to: str, out: Path | None, *, several: bool) -> tuple[Path, str]:
    """The folder to write to, and the name of the file where the user gave one."""
    known = _SUFFIXES.get(to, ())
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
    return run_folder.create(folder), name


def _timeline(run: Path, record: Mapping[str, Any]) -> Timeline:
    if not (run / TRACE).exists():
        raise UsageError(
            f"{run} has no {TRACE}, for a {record['verb']} leaves none or it was deleted: export "
            "a run of train, compare, simulate or proxy"
        )
    return read_chrome_trace(run / TRACE)


def _programs(run: Path, record: Mapping[str, Any], strategy: str | None) -> list[StoredProgram]:
    found = read_programs(run)
    if not found:
        raise UsageError(
            f"{run} has no {PROGRAMS}, of which chakra and goal are made, for a {record['verb']} "
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


def hosts_of(record: Mapping[str, Any], ranks: int) -> list[str]:
    """The host of each rank, as run.json tells; of one name where it does not."""
    hosts = [""] * ranks
    for one in record.get("clock", ()):
        for rank in one["ranks"]:
            hosts[rank] = one["host"]
    strategies = record.get("strategies")
    if not all(hosts) and isinstance(strategies, Mapping):
        for entry in strategies.values():
            for row in entry.get("ranks", ()):
                hosts[row["rank"]] = row["host"]
    other = record.get("cluster") or record.get("environment", {}).get("host") or "host"
    return [host or str(other) for host in hosts]


def _kinds(run: Path) -> dict[str, str]:
    """What each op is by its name, where the run keeps its programs."""
    found: dict[str, str] = {}
    words = {Send: "send", Recv: "recv"}
    for one in read_programs(run):
        for op in (op for ops in one.program.lists for op in ops):
            if isinstance(op, Collective):
                found[op.name] = op.kind
            elif not isinstance(op, Compute | Wait):
                found[op.name] = words[type(op)]
    return found


def _perfetto(
    timeline: Timeline,
    record: Mapping[str, Any],
    folder: Path,
    name: str,
    per_rank: bool,
    tell: Tell,
) -> list[Path]:
    hosts = hosts_of(record, timeline.ranks)
    if not per_rank:
        path = folder / (name or "perfetto.json.gz")
        counters = list(_link_counters(record, timeline))
        write_chrome_trace(path, timeline, counters=counters, hosts=hosts, tell=tell)
        return [path]
    paths = []
    ranks = np.unique(timeline.intervals["rank"]).tolist()
    for done, rank in enumerate(ranks, start=1):
        paths.append(folder / f"rank{rank}.json.gz")
        write_chrome_trace(paths[-1], of_rank(timeline, rank), hosts=hosts, rank=rank)
        tell(done, len(ranks))
    return paths


def _link_counters(record: Mapping[str, Any], timeline: Timeline) -> Iterator[Counter]:
    """How busy the busiest links were in the last step of each strategy that was simulated."""
    strategies = record.get("strategies")
    for name, entry in strategies.items() if isinstance(strategies, Mapping) else ():
        use, steps = entry.get("link_use"), timeline.steps_named(name)
        if not use or not steps.size:
            continue
        last = steps[steps["step"] == steps["step"].max()]
        begin = float(last["start"].min()) + use["begin_s"]
        for link, values in zip(use["links"], use["utilisation"], strict=True):
            at = begin + use["bin_s"] * np.arange(len(values) + 1)
            yield Counter(f"use of {link}", at, np.array([*values, 0.0]))


def _tables(timeline: Timeline, to: str, folder: Path, tell: Tell) -> list[Path]:
    write = write_csv if to == "csv" else write_parquet
    tables = {"intervals": interval_columns(timeline), "messages": message_columns(timeline)}
    paths = []
    for name, columns in tables.items():
        paths.append(folder / f"{name}.{to}")
        write(paths[-1], columns, tell)
    return paths


def _chakra(programs: Sequence[StoredProgram], folder: Path, tell: Tell) -> Exported:
    files: list[Path] = []
    for one in programs:
        own = folder / _file_name(one.program.name) if len(programs) > 1 else folder
        write_chakra(one.program, own, tell)
        files += [own / f"step.{rank}.et" for rank in range(one.program.ranks)]
        files.append(own / "comm_groups.json")
    facts = {"programs": [one.program.name for one in programs]}
    return Exported(to="chakra", files=tuple(files), facts=facts)


def _goal(
    programs: Sequence[StoredProgram],
    folder: Path,
    name: str,
    algorithms: Mapping[str, str],
    tell: Tell,
) -> Exported:
    goals = [ProgramGoal(one, algorithms) for one in programs]
    rows = [
        {"name": goal.program.name, "messages": goal.messages, "algorithms": goal.chosen}
        for goal in goals
    ]
    _refuse_unread(algorithms, rows)
    files = []
    for goal in goals:
        own = f"{_file_name(goal.program.name)}.goal" if len(goals) > 1 else "step.goal"
        files.append(folder / (name or own))
        with atomic_file(files[-1]) as file:
            for done, text in enumerate(goal.text()):
                file.write(text.encode())
                tell(done, goal.program.ranks)
    return Exported(to="goal", files=tuple(files), facts={"programs": rows})


def _refuse_unread(algorithms: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> None:
    called = {kind for row in rows for kind in row["algorithms"]}
    for kind in algorithms:
        if kind not in called:
            raise UsageError(f"--algorithm names one of {kind}, and no step calls it: leave it out")


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", name).strip("-.") or "step"
