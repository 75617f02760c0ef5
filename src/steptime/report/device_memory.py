"""Memory and placement: what a rank keeps, and where the groups of each axis are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steptime.report.subject import Subject
from steptime.units import format_bytes

_KEPT = ("parameters", "gradients", "optimizer", "passing", "activations")


@dataclass(frozen=True)
class MemoryTable:
    """Of one strategy: ``kept`` in words and bytes, a sentence, and the axes with their hosts."""

    name: str
    sentence: str
    kept: list[tuple[str, str]]
    axes: list[tuple[str, ...]]


def memory_tables(found: Sequence[Subject]) -> list[MemoryTable]:
    """The tables of those strategies of which run.json says anything."""
    tables = [_table(one) for one in found]
    return [table for table in tables if table.sentence or table.axes]


def _table(subject: Subject) -> MemoryTable:
    memory = subject.entry.get("model_memory") or {}
    kept = [(part, format_bytes(memory[part])) for part in _KEPT if memory.get(part)]
    axes = [_axis(of) for of in subject.entry.get("placement") or () if of["size"] > 1]
    return MemoryTable(subject.name, _sentence(subject, memory), kept, axes)


def _sentence(subject: Subject, memory: Mapping[str, Any]) -> str:
    buffers = [rank.get("memory_bytes", 0) for rank in subject.run.record.get("per_rank", ())]
    said = (
        f"The buffers of a rank take {format_bytes(max(buffers))} at most. " if any(buffers) else ""
    )
    if not memory:
        return said.strip()
    said += f"The rank that keeps the most of the model keeps {format_bytes(memory['total'])}"
    device = memory.get("device_bytes")
    if device:
        fits = "fits in" if memory.get("fits") else "does not fit in"
        said += f", which {fits} the {format_bytes(device)} of its device"
    return f"{said}."


def _axis(of: Mapping[str, Any]) -> tuple[str, ...]:
    """An axis: ranks, how many of a group share a host, on how many hosts, what one sends."""
    return (
        str(of["axis"]),
        f"{of['size']:,}",
        f"{of['in_host']:,}",
        f"{of['hosts']:,}",
        format_bytes(of.get("sent_bytes", 0)),
    )
