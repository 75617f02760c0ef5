"""Chrome's trace events of other programs: what ran when, by process and thread.

Nothing says what is communication, so that is told by names: those of NCCL, gloo and MPI, and of
collectives. Each process is a rank, by a number in its name, else by the order of its number.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from steptime.record.read import Group
from steptime.record.traces.document import Document
from steptime.record.traces.events import Event, args_of, events
from steptime.record.traces.format import Format
from steptime.record.traces.naming import kind_of
from steptime.record.traces.trace import Call, RankTrace, Span, Step
from steptime.timeline import Phase

_COMMUNICATES = re.compile(r"nccl|rccl|gloo|^mpi_|all_?reduce|all_?gather|reduce_?scatter", re.I)
_RANK = re.compile(r"rank\D{0,3}(\d{1,7})", re.IGNORECASE)
_STEP = re.compile(r"^(?:\w*step|iter(?:ation)?)\W*(\d{0,15})$", re.IGNORECASE)
_UNTOLD = (
    "the groups of calls",
    "what is communication, which is told by names",
)


class _Slice(NamedTuple):
    name: str
    process: str
    thread: str
    begin: int
    end: int


def _is_trace(document: Document) -> bool:
    return "traceEvents" in document.keys


def _read(document: Document) -> list[RankTrace]:
    slices: list[_Slice] = []
    names: dict[str, str] = {}
    threads: dict[tuple[str, str], str] = {}
    open_slices: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for event in events(document):
        if event.ph == "M" and event.name == "process_name":
            names[str(event.pid)] = args_of(event).name
        elif event.ph == "M" and event.name == "thread_name":
            threads[event.thread] = args_of(event).name
        else:
            slices += _slices(event, open_slices)
    processes = sorted({one.process for one in slices}, key=lambda name: (len(name), name))
    ranks = _ranks(processes, names)
    return [
        _rank(rank, len(ranks), [one for one in slices if one.process == process], threads)
        for process, rank in ranks.items()
    ]


def _slices(
    event: Event, open_slices: dict[tuple[str, str], list[tuple[str, int]]]
) -> Iterator[_Slice]:
    """The slice that an event is, or ends: X is whole, B begins one and E ends the last begun."""
    begun = open_slices.setdefault(event.thread, [])
    if event.ph == "B":
        begun.append((event.name, event.begin(0)))
    elif event.ph == "E" and begun:
        name, begin = begun.pop()
        yield _Slice(name, *event.thread, begin, max(begin, event.begin(0)))
    elif event.ph == "X":
        yield _Slice(event.name, *event.thread, event.begin(0), event.end(0))


def _ranks(processes: list[str], names: dict[str, str]) -> dict[str, int]:
    """The rank of each process: that of its name, where all have different ones."""
    said = {process: _RANK.search(names.get(process, "")) for process in processes}
    numbers = {process: int(found[1]) for process, found in said.items() if found is not None}
    if len(numbers) == len(processes) and len(set(numbers.values())) == len(processes):
        return numbers
    return {process: rank for rank, process in enumerate(processes)}


def _rank(
    rank: int, ranks: int, slices: list[_Slice], threads: dict[tuple[str, str], str]
) -> RankTrace:
    """The outermost slices of each thread, but for steps and for calls within others."""
    group = Group("group not told", "", tuple(range(ranks)))
    steps: list[Step] = []
    spans, calls = [], []
    done: dict[str, int] = {}
    for one in sorted(slices, key=lambda one: (one.begin, -one.end)):
        step = _STEP.match(one.name)
        stream = threads.get((one.process, one.thread)) or f"thread {one.thread}"
        if step is not None:
            number = int(step[1]) if step[1] else len(steps)
            steps.append(Step(number, one.begin, one.end))
        elif _COMMUNICATES.search(one.name) and (kind := kind_of(one.name)):
            calls.append(Call(kind, group, 0, one.begin, one.end, stream))
        elif one.begin >= done.get(one.thread, one.begin):
            done[one.thread] = one.end
            spans.append(Span(stream, one.name, Phase.COMPUTE, one.begin, one.end))
    distinct = list({step.number: step for step in steps}.values())
    return RankTrace(
        rank=rank,
        world_size=ranks,
        steps=distinct,
        steps_by="slices called a step" if steps else "",
        spans=spans,
        calls=calls,
        untold=_UNTOLD,
    )


FORMAT = Format("Chrome trace", _is_trace, _read, order=1)
