"""Memory and placement: what a rank keeps, and where the groups of each axis are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steptime.report.section import Page, Section
from steptime.report.subject import Subject
from steptime.runs.figures import AxisPlacement, ModelMemory
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
    memory = subject.entry.model_memory
    parts = {part: getattr(memory, part) for part in _KEPT} if memory else {}
    kept = [(part, format_bytes(nbytes)) for part, nbytes in parts.items() if nbytes]
    axes = [_axis(of) for of in subject.entry.placement if of.size > 1]
    return MemoryTable(subject.name, _sentence(subject, memory), kept, axes)


def _sentence(subject: Subject, memory: ModelMemory | None) -> str:
    proxy = subject.run.record.proxy
    most = max((of.memory_bytes for of in proxy.plan.per_rank), default=0) if proxy else 0
    buffers = f"The buffers of a rank take {format_bytes(most)} at most. " * bool(most)
    if not memory:
        return buffers.strip()
    model = f"The rank that keeps the most of the model keeps {format_bytes(memory.total)}"
    if memory.device_bytes:
        fits = "fits in" if memory.fits else "does not fit in"
        model += f", which {fits} the {format_bytes(memory.device_bytes)} of its device"
    if memory.too_much:
        more = format_bytes(memory.too_much.total)
        model += f", but not under {memory.too_much.software}, where it would keep {more}"
    return f"{buffers}{model}."


def _axis(of: AxisPlacement) -> tuple[str, ...]:
    """An axis: ranks, how many of a group share a host, on how many hosts, what one sends."""
    return (
        of.axis,
        f"{of.size:,}",
        f"{of.in_host:,}",
        f"{of.hosts:,}",
        format_bytes(of.sent_bytes),
    )


def _shown(page: Page) -> Mapping[str, Any] | None:
    tables = memory_tables(page.subjects)
    return {"memory": tables} if tables else None


SECTION = Section("memory", 130, _shown)
