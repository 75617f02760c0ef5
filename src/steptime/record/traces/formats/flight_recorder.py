"""PyTorch's flight recorder: the last calls of a rank, by group and number, with their frames.

A dump is JSON, or a pickle whose values are all plain. Where its backend does not tell when a call
began and ended, as gloo does not, only order, sizes and state are known. Keys:
torch/csrc/distributed/c10d/FlightRecorder.hpp, version 2.10.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from steptime.errors import UsageError
from steptime.files import checked
from steptime.record.packages import place_and_via
from steptime.record.read import Group, Site
from steptime.record.traces.document import Document
from steptime.record.traces.format import Format
from steptime.record.traces.naming import elements, item_bytes, kind_of, vector_elements
from steptime.record.traces.plain_pickle import unpickled
from steptime.record.traces.trace import Call, RankTrace

_OF_TORCH = re.compile(
    r"[/\\]torch[/\\]|[/\\]typing_extensions\.py$|^<|[/\\]lib[/\\]python3\.\d+[/\\](?!\w+-packages)"
)
"""Of torch, of Python, or of what wraps torch's functions."""


class _Entry(msgspec.Struct, kw_only=True):
    """A call as the recorder keeps it; times are nanoseconds of the wall clock, 0 or null: none."""

    process_group: tuple[str, str] = ("", "")
    collective_seq_id: int = -1
    p2p_seq_id: int = -1
    op_id: int = 0
    profiling_name: str
    time_created_ns: int
    time_discovered_started_ns: int | None = None
    time_discovered_completed_ns: int | None = None
    input_sizes: Sequence[Sequence[int]] = ()
    input_dtypes: Sequence[str] = ()
    output_sizes: Sequence[Sequence[int]] = ()
    output_dtypes: Sequence[str] = ()
    state: str = ""
    retired: bool = False
    is_p2p: bool = False
    frames: Sequence[Mapping[str, Any]] = ()


def _is_dump(document: Document) -> bool:
    if document.is_pickle:
        return True
    return "entries" in document.keys and "pg_config" in document.keys


def _read(document: Document) -> list[RankTrace]:
    if document.is_pickle:
        if not document.unpickle:
            raise UsageError(
                f"{document.path} is a pickle, which could run code: ask for it by --unpickle, or "
                "dump JSON with torch._C._distributed_c10d._dump_fr_trace_json()"
            )
        content = unpickled(document.content)
        dump = content if isinstance(content, dict) else {}
        entries = checked(dump.get("entries"), list[_Entry])
        config = dump.get("pg_config", {})
    else:
        entries = document.value("entries", list[_Entry])
        config = document.told("pg_config", dict[str, Any], {})
    groups = _groups(config)
    world = {rank for one in groups.values() for rank in one.ranks}
    calls = [_call(entry, groups) for entry in sorted(entries, key=lambda one: one.op_id)]
    if not calls:
        return []
    untold = ["what was computed"]
    if not any(call.end > call.begin for call in calls):
        untold = ["when its calls ended: it holds their order, sizes and states, no durations"]
    world_size = max(world, default=-2) + 1
    backend = calls[0].group.backend
    return [RankTrace(rank=-1, world_size=world_size, backend=backend, calls=calls, untold=untold)]


def _groups(config: Any) -> dict[str, Group]:
    """The groups by name; ranks stand as the text of a list."""
    found = {}
    for name, one in config.items() if isinstance(config, dict) else ():
        ranks = tuple(map(int, re.findall(r"\d{1,9}", str(one.get("ranks", "")))))
        found[str(name)] = Group(str(one.get("desc") or name), "", ranks)
    return found


def _call(entry: _Entry, groups: Mapping[str, Group]) -> Call:
    name, description = entry.process_group
    backend = entry.profiling_name.partition(":")[0]
    known = groups.get(name) or groups.get(description) or next(iter(groups.values()), None)
    ranks = known.ranks if known else ()
    group = Group(description or name or "group", backend, ranks)
    kind, peer = _kind_and_peer(entry)
    into, out_of = (
        sum(elements(size) for size in sizes) for sizes in (entry.input_sizes, entry.output_sizes)
    )
    dtype = next(iter([*entry.input_dtypes, *entry.output_dtypes]), "")
    count = vector_elements(kind, into, out_of, max(1, len(ranks)))
    created = entry.time_created_ns
    begin = entry.time_discovered_started_ns or created
    end = entry.time_discovered_completed_ns or begin
    return Call(
        kind=kind,
        group=group,
        nbytes=count * item_bytes(dtype),
        begin=begin,
        end=max(begin, end),
        stream=group.name,
        dtype=dtype,
        shapes=tuple(tuple(size) for size in entry.input_sizes or entry.output_sizes),
        peer=peer,
        sequence=entry.p2p_seq_id if entry.is_p2p else entry.collective_seq_id,
        done=entry.retired or entry.state == "completed" or end > begin,
        issued=created,
        site=_site(entry.frames),
    )


def _kind_and_peer(entry: _Entry) -> tuple[str, int]:
    """The collective, or the end of a message and its peer, as in ``nccl:send 0->1``."""
    ends = re.search(r"(send|recv)\s*(\d{1,9})\s*(?:->|<-)\s*(\d{1,9})", entry.profiling_name)
    if ends is not None:
        return ends[1], int(ends[3])
    return kind_of(entry.profiling_name.partition(":")[2] or entry.profiling_name), -1


def _site(frames: Sequence[Mapping[str, Any]]) -> Site | None:
    """The place of a call, whose frames come innermost first."""
    lines = []
    for frame in frames:
        file, line = str(frame.get("filename", "")), frame.get("line", 0)
        if file and not _OF_TORCH.search(file):
            lines.append(
                Site(file, line if isinstance(line, int) else 0, str(frame.get("name", "")))
            )
    found = place_and_via(lines, lambda site: (site.file, site.function))
    if found is None:
        return None
    place, via = found
    return replace(place, via=f"{via.file}:{via.line}") if via else place


FORMAT = Format("flight recorder dump", _is_dump, _read)
