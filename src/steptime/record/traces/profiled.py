"""What a torch.profiler trace says of one rank, sorted: operators, annotations, kernels, groups."""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from steptime.record.read import Group
from steptime.record.traces.document import Document
from steptime.record.traces.events import Args, Event, args_of, events, whole

_Thread: TypeAlias = tuple[str, str]
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
_RUNTIME = ("cuda_runtime", "cuda_driver", "runtime", "hip_runtime")
_COMMUNICATES = ("nccl", "gloo", "rccl", "oneccl", "ucc", "mpi")
_UNNAMED = ("", "undefined")
_LONGEST_NAME = 120  # of a kernel: templates of C++ have thousands of characters


class Slice(NamedTuple):
    """An event with a duration: nanoseconds of the wall clock, and where it ran."""

    name: str
    thread: _Thread
    begin: int
    end: int
    args: Args
    is_kernel: bool = False


@dataclass(frozen=True)
class Profiled:
    """The slices of a rank by sort, each in order of begin.

    ``calls``: the operators of c10d and what they say of their arguments. ``spans``: what a backend
    says of its own work, as ``gloo:all_reduce``. ``launched``: thread and moment of each call of
    the device's runtime, by correlation.
    """

    operators: list[Slice] = field(default_factory=list)
    annotations: list[Slice] = field(default_factory=list)
    calls: list[Slice] = field(default_factory=list)
    spans: list[Slice] = field(default_factory=list)
    device: list[Slice] = field(default_factory=list)
    launched: dict[int, tuple[_Thread, int]] = field(default_factory=dict)


def profiled(document: Document) -> Profiled:
    """All that is read of a trace; raises errors for ``reading`` to tell."""
    base = document.told("baseTimeNanoseconds", int, 0)
    found = Profiled()
    for event in events(document):
        if event.ph == "X":
            _sort(event, base, found)
    for slices in (found.operators, found.annotations, found.calls, found.spans, found.device):
        slices.sort(key=lambda one: (one.begin, -one.end))
    return found


def _sort(event: Event, base: int, found: Profiled) -> None:
    category = event.cat.lower()
    communicates = event.name.partition(":")[0].lower() in _COMMUNICATES and ":" in event.name
    if category in _RUNTIME:
        correlation = whole(args_of(event).correlation, -1)
        found.launched.setdefault(correlation, (event.thread, event.begin(base)))
    elif category in _DEVICE:
        found.device.append(_slice(event, base, args_of(event), is_kernel=category == "kernel"))
    elif event.name.startswith("c10d::") or event.name == "record_param_comms":
        found.calls.append(_slice(event, base, args_of(event)))
    elif communicates and not category.startswith("gpu_"):
        found.spans.append(_slice(event, base, args_of(event)))
    elif category in ("cpu_op", "operator"):
        found.operators.append(_slice(event, base, Args()))
    elif category == "user_annotation":
        found.annotations.append(_slice(event, base, Args()))


def _slice(event: Event, base: int, args: Args, *, is_kernel: bool = False) -> Slice:
    name = event.name[:_LONGEST_NAME]
    return Slice(name, event.thread, event.begin(base), event.end(base), args, is_kernel)


@dataclass(frozen=True)
class Within:
    """Finds, for a moment of a thread, the slice of some that it lies within."""

    by_thread: Mapping[_Thread, Sequence[Slice]]
    begins: Mapping[_Thread, Sequence[int]]

    @staticmethod
    def of(slices: Sequence[Slice]) -> "Within":
        """Of slices in order of begin, which do not nest on one thread."""
        by_thread: dict[_Thread, list[Slice]] = {}
        for one in slices:
            by_thread.setdefault(one.thread, []).append(one)
        begins = {thread: [one.begin for one in own] for thread, own in by_thread.items()}
        return Within(by_thread, begins)

    def find(self, thread: _Thread, moment: int) -> Slice | None:
        """The one that has begun last and not ended yet, if any has."""
        at = bisect_right(self.begins.get(thread, ()), moment) - 1
        if at < 0:
            return None
        found = self.by_thread[thread][at]
        return found if moment < found.end else None


@dataclass(frozen=True)
class Groups:
    """The process groups of a rank, as ``distributedInfo`` or a call of theirs tells them."""

    rank: int
    world_size: int
    backend: str
    known: Mapping[str, Group]

    def of(self, args: Args, backend: str) -> Group:
        """The group of a call: what its arguments say, else the only one there is."""
        name = str(args.group_name)
        if name in self.known:
            return self.known[name]
        ranks = _ranks(args.group_ranks)
        size = whole(args.group_size)
        if name or ranks or size:
            described = str(args.group_description)
            called = described if described not in _UNNAMED else name or "group"
            return Group(called, backend, ranks if len(ranks) >= size else tuple(range(size)))
        if len(self.known) == 1:
            return next(iter(self.known.values()))
        return Group("group not told", backend, tuple(range(max(1, self.world_size))))


def groups_of(document: Document) -> Groups:
    """What the document says of its rank, the size of the world, and the groups; -1 is not told."""
    about: dict[str, Any] = document.told("distributedInfo", dict[str, Any], {})
    backend = str(about.get("backend", ""))
    world_size = whole(about.get("world_size"), -1)
    listed = about.get("pg_config")
    known = {}
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, dict):
            name, described = str(one.get("pg_name", "")), str(one.get("pg_desc", ""))
            ranks = _ranks(one.get("ranks")) or tuple(range(max(1, world_size)))
            known[name] = Group(described if described not in _UNNAMED else name, backend, ranks)
    return Groups(whole(about.get("rank"), -1), world_size, backend, known)


def _ranks(value: Any) -> tuple[int, ...]:
    """Ranks as a list, or as the text of one; none where it is cut short by an ellipsis."""
    if isinstance(value, str):
        return () if "..." in value else tuple(map(int, re.findall(r"\d{1,9}", value)))
    return tuple(whole(one) for one in value) if isinstance(value, list) else ()
