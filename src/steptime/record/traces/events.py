"""Chrome's trace events as torch.profiler and others write them, decoded one at a time.

Format: the Trace Event Format document of the Chromium project; what stands in the arguments is
libkineto's (output_json.cpp) and torch's (ParamCommsUtils.hpp).
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from steptime.record.traces.document import Document


class Event(msgspec.Struct, gc=False):
    """An event; ``ts`` and ``dur`` are microseconds. ``args`` are decoded where they are asked for.

    A whole number of microseconds since 1970 has more digits than a float holds nanoseconds of, so
    it stays whole.
    """

    ph: str = ""
    name: str = ""
    cat: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: int | float | None = None
    dur: int | float | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")

    def begin(self, base: int) -> int:
        """When it began, in nanoseconds, of a trace that counts from ``base``."""
        return base + _nanoseconds(self.ts)

    def end(self, base: int) -> int:
        """When it ended."""
        return self.begin(base) + max(0, _nanoseconds(self.dur))

    @property
    def thread(self) -> tuple[str, str]:
        """Process and thread, or device and stream."""
        return str(self.pid), str(self.tid)


class Args(msgspec.Struct, gc=False):
    """What is read of the arguments of an event; ``Any`` is what differs between versions."""

    name: str = ""
    correlation: Any = None
    device: Any = None
    stream: Any = None
    dtype: Any = ""
    collective: Any = msgspec.field(default="", name="Collective name")
    elements_in: Any = msgspec.field(default=0, name="In msg nelems")
    elements_out: Any = msgspec.field(default=0, name="Out msg nelems")
    group_name: Any = msgspec.field(default="", name="Process Group Name")
    group_description: Any = msgspec.field(default="", name="Process Group Description")
    group_ranks: Any = msgspec.field(default="", name="Process Group Ranks")
    group_size: Any = msgspec.field(default=0, name="Group size")
    sequence: Any = msgspec.field(default=-1, name="Seq")
    dims: Any = msgspec.field(default=None, name="Input Dims")
    types: Any = msgspec.field(default=None, name="Input type")
    inputs: Any = msgspec.field(default=None, name="Concrete Inputs")


_ARGS = msgspec.json.Decoder(Args)
_EVENT = msgspec.json.Decoder(Event)


def args_of(event: Event) -> Args:
    """The arguments of an event."""
    return _ARGS.decode(event.args)


def events(document: Document) -> Iterator[Event]:
    """The events of a document, one after the other: most are needed for a moment only."""
    for raw in document.value("traceEvents", list[msgspec.Raw]):
        yield _EVENT.decode(raw)


def whole(value: Any, otherwise: int = 0) -> int:
    """A whole number, or ``otherwise`` where a trace has something else there."""
    if isinstance(value, int):
        return int(value)
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 19 else otherwise


def _nanoseconds(micros: float | None) -> int:
    if isinstance(micros, int):
        return micros * 1000
    return round((micros or 0.0) * 1000)
