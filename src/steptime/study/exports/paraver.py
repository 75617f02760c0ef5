"""Paraver's .prv, .pcf and .row."""

from pathlib import Path

from steptime.program import Collective, Compute, Recv, Send, Wait
from steptime.program.stored import read_programs
from steptime.study.export import Export, Exporting, hosts_of
from steptime.timeline.paraver import write_paraver


def write(asked: Exporting) -> list[Path]:
    """The three files of one trace."""
    stem = asked.folder / (asked.name or "trace.prv").removesuffix(".prv")
    hosts = hosts_of(asked)
    kinds = _kinds(asked.run)
    return list(write_paraver(stem, asked.timeline, hosts=hosts, kinds=kinds, tell=asked.tell))


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


EXPORT = Export(opened_by="open the .prv in Paraver", write=write, suffixes=(".prv",))
