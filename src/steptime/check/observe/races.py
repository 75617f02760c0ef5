"""Races: memory that the script uses while a call of its own still does, and handles let go."""

import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from steptime.check.observe.accesses import Accesses
from steptime.check.observe.buffers import Span, read_and_written, span, spans
from steptime.check.observe.contained import Contained, ContainedWatcher, caller
from steptime.check.observe.copies import Copies
from steptime.check.observe.observer import Observer
from steptime.check.observe.polls import Polls
from steptime.check.observe.replaced import Function, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.operations import Operation
from steptime.record.places import is_of_script, is_ours, site
from steptime.world import compat

RACE, CALLED = "race", "called"

_RUNS_MODULES = torch.nn.Module._call_impl.__code__.co_filename

_QUESTIONS = ("is_completed", "get_future")
"""Methods of a Work by which a script learns that it is done, or leaves that to others."""

_MOST_UNDER_WAY = 1000
"""A script that waits for none of its calls has the oldest ones forgotten."""

_OF_GAPLESS = ("all_reduce", "broadcast", "reduce", "scatter")
"""Collectives of which gloo of torch 2.13 moves as many bytes from a tensor's beginning on as it
has, gaps included; of the others it makes tensors without gaps, or refuses."""

_OBSERVERS = f"{Path(__file__).parent}/"
"""Where observers look at tensors themselves, which the script does not."""

_ENTRANCES = (
    "/torch/distributed/distributed_c10d.py",
    "/torch/distributed/c10d_logger.py",
    "/torch/_ops.py",
    "/torch/_compile.py",
    "/torch/_dynamo/eval_frame.py",
    "/steptime/check/observe/accesses.py",
    "/contextlib.py",
    "/functools.py",
    "/typing_extensions.py",
    "/warnings.py",
)
"""The files that a call from Python passes on its way to c10d, also by a deprecated name."""


class _Call:
    """A call of the script that nobody has waited for."""

    def __init__(
        self, kind: str, site: int, reads: tuple[Span, ...], writes: tuple[Span, ...]
    ) -> None:
        self.kind = kind
        self.site = site
        self.reads = reads
        self.writes = writes
        self.work: weakref.ref[Any] | None = None

    def clashes(self, used: Span, *, writes: bool) -> bool:
        """Whether a use of memory disturbs this call, or is disturbed by it."""
        mine = (*self.reads, *self.writes) if writes else self.writes
        return any(used.overlaps(one) for one in mine)

    def over(self) -> bool:
        """Whether nobody can use its memory any more."""
        return all(one.storage.expired() for one in (*self.reads, *self.writes))


class Races:
    """The calls of this process's script under way, and what was noted of them."""

    def __init__(self, log: Log, polls: Polls) -> None:
        self._log = log
        self._polls = polls
        self._under_way: dict[int, _Call] = {}
        self._of_thread = threading.local()
        self._noted: set[tuple[Any, ...]] = set()
        self._accesses = Accesses(self._used, lambda: bool(self._under_way))
        self._asked: dict[tuple[type, str], Any] = {}
        self._copies = Copies()

    def issued(
        self,
        operation: Operation,
        group: Any,
        arguments: Sequence[Any],
        *,
        peer: int,
        asynchronous: bool,
    ) -> None:
        """Look at the memory of a call, and at that of those under way."""
        self._of_thread.last = None
        noting = caller()
        frame = noting.f_back if noting else None
        if frame is None or not is_called_by_script(frame):
            return
        at = site(self._log, frame)
        read, written = read_and_written(operation.kind, arguments, is_root=peer == group.rank())
        # Of most calls nothing is to be compared: all else waits for them, and there is no other.
        alone = not (asynchronous or self._under_way or len(written) > 1)
        plain = alone and all(map(_has_no_gaps, (*read, *written)))
        call = _Call(operation.kind, at, *(() if plain else spans(one) for one in (read, written)))
        self._called(call, frame)
        # The handle of one that is waited for later may give what it has written.
        if not asynchronous and (copy := self._copies.dropped(caller_of(frame), written)):
            self._note("dropped", call, by=copy)
        if plain:
            return
        gaps = any(not one.dense for one in (*call.reads, *call.writes))
        gaps = gaps and all(tensor.is_cpu for tensor in (*read, *written))
        if gaps and operation.kind in _OF_GAPLESS and "gloo" in compat.backend_of(group):
            self._note("gaps", call)
        if any(one.overlaps(other) for one, other in combinations(call.writes, 2)):
            self._note("doubled", call)
        for other in self._others():
            if any(other.clashes(one, writes=True) for one in call.writes) or any(
                other.clashes(one, writes=False) for one in call.reads
            ):
                self._note("overlap", other, at=at, by=call.kind)
        if asynchronous and not _is_coalesced(frame):
            self._of_thread.last = call

    def returned(self, work: Any) -> None:
        """From now on the call is under way, if it is one that the script must wait for."""
        call = getattr(self._of_thread, "last", None)
        self._of_thread.last = None
        if call is None or work is None:
            return
        self.ask(type(work))
        key = id(work)
        call.work = weakref.ref(work, lambda _: self._let_go(key, call))
        self._under_way[key] = call
        if len(self._under_way) > _MOST_UNDER_WAY:
            self._under_way.pop(next(iter(self._under_way)), None)
        self._accesses.attend()

    def waiting(self, work: Any) -> None:
        """The call of a Work is over: the script waits for it, or hands the waiting on."""
        call = self._under_way.get(id(work))
        if call is not None and call.work is not None and call.work() is work:
            del self._under_way[id(work)]
        self._accesses.attend()

    def attend(self) -> None:
        """Watch what the script does next, where backward has ended that."""
        self._accesses.attend()

    def ask(self, kind: type) -> None:
        """See the script ask a Work of this class whether it is done, or for its future."""
        for name in _QUESTIONS:
            method = kind.__dict__.get(name)
            if method is not None and (kind, name) not in self._asked:
                self._asked[kind, name] = method
                setattr(kind, name, self._asking(name, method))

    def _asking(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def asking(work: Any) -> Any:
            answer = method(work)
            if not is_ours(sys._getframe(1)):
                if answer or name != "is_completed":
                    self.waiting(work)
                else:
                    self._polls.asked(work)
            return answer

        return asking

    def end(self) -> None:
        """The process ends: what is under way was never waited for."""
        for call in list(self._under_way.values()):
            self._note("unwaited", call)
        self._under_way.clear()
        self._accesses.attend()
        for (kind, name), method in self._asked.items():
            setattr(kind, name, method)

    def _let_go(self, key: int, call: _Call) -> None:
        """A handle is gone before anybody waited; its memory is in use all the same."""
        if self._under_way.get(key) is call:
            del self._under_way[key]
            self._note("unwaited", call)
            if not call.over():
                self._under_way[-id(call)] = call

    def _others(self) -> Iterator[_Call]:
        for key, call in list(self._under_way.items()):
            if key < 0 and call.over():
                self._under_way.pop(key, None)
            else:
                yield call

    def _used(self, tensor: torch.Tensor, writes: bool) -> None:
        """An operator uses a tensor."""
        used = span(tensor)
        if used is None:
            return
        for call in self._others():
            if call.clashes(used, writes=writes):
                frame = sys._getframe(2)
                if is_of_script(frame) and not _observes(frame):
                    self._note("written" if writes else "read", call, at=site(self._log, frame))

    def _called(self, call: _Call, frame: FrameType) -> None:
        """Say once of each line that the script makes such a call there, itself."""
        if (key := (CALLED, call.kind, call.site)) not in self._noted:
            self._noted.add(key)
            within = _is_within_forward(frame)
            self._log.note(observed=CALLED, call=call.kind, at=call.site, within_forward=within)

    def _note(self, fault: str, call: _Call, at: int = 0, by: str = "") -> None:
        key = (fault, call.site, at)
        if key not in self._noted:
            self._noted.add(key)
            self._log.note(
                observed=RACE, fault=fault, call=call.kind, call_at=call.site, at=at, by=by
            )


def _observes(frame: FrameType) -> bool:
    """Whether an observer uses a tensor, and does not pass on what the script does with it."""
    code = frame.f_code
    return code.co_filename.startswith(_OBSERVERS) and code.co_name != "__torch_function__"


def _has_no_gaps(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.is_contiguous()


def is_called_by_script(frame: FrameType | None) -> bool:
    """Whether a call comes from the script, not from what PyTorch does for it, as DDP does."""
    return frame is not None and not is_ours(caller_of(frame))


def caller_of(frame: FrameType) -> FrameType:
    """The frame that has called torch.distributed, behind its own entrances."""
    while is_entrance(frame) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def is_entrance(frame: FrameType) -> bool:
    """Whether a frame is one of torch.distributed's own entrances, or a wrapper of one."""
    return frame.f_code.co_filename.endswith(_ENTRANCES)


def _is_coalesced(frame: FrameType | None) -> bool:
    """Whether a call is one of a batch that has one handle."""
    seen: FrameType | None = frame
    while seen is not None and is_entrance(seen):
        if seen.f_code.co_name == "batch_isend_irecv":
            return "cm" in seen.f_locals
        seen = seen.f_back
    return False


def _is_within_forward(frame: FrameType | None) -> bool:
    """Whether a module computes with it: what ``forward`` calls, and no step of a trainer's."""
    while frame is not None and frame.f_back is not None:
        if frame.f_back.f_code.co_filename == _RUNS_MODULES:
            return frame.f_code.co_name == "forward"
        frame = frame.f_back
    return False


def _observe(log: Log, calls: Calls) -> Callable[[], None]:
    races = Races(log, Polls(log, calls))
    contained = Contained("races")
    watcher, attend = (
        ContainedWatcher(contained, races.issued, races.returned, races.waiting),
        contained.of(races.attend),
    )
    calls.watchers.append(watcher)

    def attentive(backward: Function) -> Function:
        def runs(*arguments: Any, **options: Any) -> Any:
            try:
                return backward(*arguments, **options)
            finally:
                attend()

        return runs

    end = replaced([torch.autograd], "backward", attentive)
    races.ask(compat.Work)

    def remove() -> None:
        races.end()
        calls.watchers.remove(watcher)
        end()

    return remove


OBSERVER = Observer(_observe)
