"""Calls under way: what this process knows of each from its issue to its end."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, Protocol, TypeVar
from weakref import ref

import torch
import torch.distributed as dist

from steptime.record.events import ASYNC, Kind, Log, Time
from steptime.record.operations import FROM_ANY, OPERATIONS, Detail, Operation
from steptime.record.places import site
from steptime.record.rows import in_c, recorder
from steptime.record.tensors import address, nbytes_of
from steptime.world import compat

T = TypeVar("T")

OVER = -2
"""In place of an event: what the thread waits for next is over, and known to be."""

_clock = time.perf_counter_ns
_CALL = int(Kind.CALL)
_ENDS_WITHIN_S = 2.0
_LETS_GO_S = 0.05


class _OfThread(threading.local):
    """What concerns the call that a thread is about to make, makes, or has just made."""

    work: Any = None
    """The Work of its last asynchronous call; held, so that Python gets this very object."""

    at_once = -1
    """The event of its last call where that was synchronous, until it is waited for; OVER where it
    was over as it came back."""

    returned = 0
    """When that call came back."""

    reduction: Any = None
    """What its next call reduces by, where that was chosen."""

    inside = False
    """Whether it is in a call of a group that is a Python class, which may use others."""

    waiting = False


class Watcher(Protocol):
    """Who is told of each call in the thread that makes it, with its arguments and its Work."""

    def issued(
        self,
        operation: Operation,
        group: Any,
        arguments: Sequence[Any],
        *,
        peer: int,
        asynchronous: bool,
    ) -> None:
        """A call begins; its tensors come first in its arguments."""

    def returned(self, work: Any) -> None:
        """The call that began last in this thread came back, with its Work or None."""

    def waiting(self, work: Any) -> None:
        """The script is about to wait for a Work, or for the tensor of one; None is told then."""


class Marks(Protocol):
    """Who marks on a GPU where the script is on its stream, for times that are written down."""

    def take(self) -> Any:
        """A mark of where this thread is now; None where it can have none."""

    def keep(self, number: int, time_of: int, mark: Any) -> None:
        """Keep a mark, unless it is None, as that of a ``Time`` of the event of a number."""


class Calls:
    """The calls of this process, written into ``log``, from ``__init__`` to ``close``.

    ``watchers`` are told of each, too, where somebody observes more of them than is written down.
    ``works``: the events of Works that the script may still wait for, by references that take
    theirs out when a Work goes. ``from_any``: those of them that receive from any rank. ``to_end``:
    the events and Works of asynchronous calls, in the order of their issue. ``groups``: of those
    that were met, by their identity, what tells whether they live, and their numbers.
    ``signatures``: the numbers and bytes of what calls were called with. ``marks``: those of a GPU,
    from when the process uses one; ``meets_group`` is called as it meets a group. ``asked_for`` are
    told the event of a call whose future the script asks in vain whether it is done. ``forgets`` is
    called where groups have no numbers any more.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.of_thread = _OfThread()
        self.watchers: list[Watcher] = []
        self.works: dict[ref[Any], int] = {}
        self.from_any: set[int] = set()
        self.to_end: queue.SimpleQueue[tuple[int, Any] | None] = queue.SimpleQueue()
        self.groups: dict[int, tuple[ref[Any], int]] = {}
        self._number_of_groups = 0
        self.signatures: dict[Any, tuple[int, int]] = {}
        self.marks: Marks | None = None
        self.meets_group: Callable[[], object] = lambda: None
        self.asked_for: list[Callable[[int], None]] = []
        self.forgets: Callable[[], object] = lambda: None
        self._wait = compat.Work.wait
        self.attend()

    def attend(self) -> None:
        """Start the thread that tells when calls are done; a forked child has none."""
        self.groups.clear()
        self.signatures.clear()
        self.forgets()
        self._thread = threading.Thread(target=self._end_calls, name="steptime-record", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End that thread, which must be gone before the interpreter ends.

        That would end it in the middle of a wait of C++, which aborts the process. A call that
        nobody can end any more is not waited for. The threads of gloo may want the interpreter's
        lock for the tensors of the last calls: they get it now.
        """
        self.to_end.put(None)
        self._thread.join(_ENDS_WITHIN_S)
        time.sleep(_LETS_GO_S)

    def begin(
        self,
        number: int,
        operation: Operation,
        reduces: bool,
        group: Any,
        tensors: Sequence[torch.Tensor],
        waits: bool,
        peer: int,
        detail: Detail = (),
    ) -> int:
        """Write down that a call is made now; its event.

        ``reduces``: as the operation does. ``waits``: it is synchronous. ``detail``: that of the
        operation.
        """
        log, of_thread = self.log, self.of_thread
        of_thread.work, of_thread.at_once = None, -1
        known = self.groups.get(id(group))
        where = known[1] if known and known[0]() is group else self.new_group(group)
        reduction = ""
        if reduces:
            reduction = compat.reduction_name(of_thread.reduction)
            of_thread.reduction = None
        signature, nbytes = self.signature(tensors, reduction, detail)
        return log.rows.write(
            _CALL,
            _clock(),
            0,
            0,
            number,
            0 if waits else ASYNC,
            where,
            peer,
            site(log),
            signature,
            nbytes * group.size() if operation.times_group else nbytes,
            address(tensors),
        )

    def awaits(self, event: int, returned: int) -> None:
        """Say that a synchronous call came back, which torch now waits for."""
        self.of_thread.at_once, self.of_thread.returned = event, returned
        self.log.rows.waited_at_once(event, returned, 0)

    def went(self, event: int, returned: int, work: Any, number: int, waits: bool) -> Any:
        """Say that a call came back with its Work, which is returned, or None.

        ``number``: of its operation. ``waits``: it is synchronous.
        """
        self.log.rows.returned(event, returned)
        self.of_thread.work = work
        if work is None:  # as a synchronous call of NCCL, which is on the script's own stream
            self.log.rows.end(event, returned)
            if waits and self.marks:
                self.marks.keep(event, Time.RETURNED, self.marks.take())
            return None
        self.may_be_waited(work, event, number)
        # A message ends when it is waited for. Who waits for a call of NCCL makes its stream wait,
        # and ours would be the one that the script computes on.
        if not (waits or OPERATIONS[number].is_message or self.marks):
            self.to_end.put((event, work))
        return work

    def may_be_waited(self, work: Any, event: int, number: int) -> None:
        """Keep the event of a Work while that lives, or until it is waited for.

        ``number``: of the operation.
        """
        if number == FROM_ANY:
            self.from_any.add(event)
        # As WeakKeyDictionary does, but no line of Python runs when the Work goes: that is often
        # between two passes of backward, where Python finds its caches empty.
        self.works[ref(work, self.works.__delitem__)] = event

    def received(self, event: int, work: Any) -> None:
        """Write down the rank, within its group, that a call received from which may be any."""
        self.from_any.discard(event)
        with suppress(RuntimeError):  # who waits in the script need not ask for it
            self.log.note(event=event, source=compat.source_of(work))

    def waiting(self, wait: Callable[..., Any]) -> Callable[..., Any]:
        """The method ``wait`` of a class of Works, which writes down from when to when it waits."""
        log, rows, works, of_thread = self.log, self.log.rows, self.works, self.of_thread
        watchers, from_any = self.watchers, self.from_any

        @compat.left_alone
        @wraps(wait)
        def noted(work: Any, *arguments: Any, **options: Any) -> Any:
            for watcher in watchers:
                watcher.waiting(work)
            if of_thread.waiting:
                return wait(work, *arguments, **options)
            if of_thread.at_once == OVER:
                of_thread.at_once = -1
                return wait(work, *arguments, **options)
            # Who makes a synchronous call waits for it before anything else.
            at_once, of_thread.at_once = of_thread.at_once, -1
            event = works.pop(ref(work), None) if at_once < 0 else at_once
            of_thread.work = None
            of_thread.waiting = True
            marks = self.marks
            mark = marks.take() if marks else None
            begin = _clock()
            # Said before it begins, for whoever looks at a process that never comes back from it.
            if event is None:
                event = rows.write(Kind.WAIT, begin, site=site(log))
            elif at_once < 0:
                rows.waited(event, begin, 0)
            try:
                result = wait(work, *arguments, **options)
            except BaseException:
                rows.waited(event, begin, _clock())  # and it has no end: the call failed
                raise
            finally:
                of_thread.waiting = False
            end = _clock()
            if at_once >= 0:
                rows.waited_at_once(event, of_thread.returned, end)
            else:
                rows.waited(event, begin, end)
                rows.end(event, end)
            if event in from_any:
                self.received(event, work)
            if marks:
                marks.keep(event, Time.WAIT_BEGIN, mark)
                marks.keep(event, Time.WAIT_END, marks.take())
            return result

        if not in_c():
            return noted
        return recorder.Wait(
            rows=rows, of_thread=of_thread, watchers=watchers, wait=wait, otherwise=noted
        )

    def signature(
        self, tensors: Sequence[torch.Tensor], reduction: str, detail: Detail
    ) -> tuple[int, int]:
        """The number of the dtypes, shapes and reduction of a call, and the bytes of its tensors.

        0 and 0 where it has no tensors.
        """
        key: Any
        if len(tensors) == 1:
            key = reduction, detail, *_apart(tensors[0])
        elif tensors:
            key = reduction, detail, *map(_apart, tensors)
        else:
            return 0, 0
        known = self.signatures.get(key)
        if known is None:
            number = self.log.signature(
                dtype=str(tensors[0].dtype).removeprefix("torch."),
                shapes=[list(tensor.shape) for tensor in tensors],
                contiguous=all(one.is_sparse or one.is_contiguous() for one in tensors),
                reduction=reduction,
                **dict(detail),
            )
            known = self.signatures[key] = number, sum(map(nbytes_of, tensors))
        return known

    def _end_calls(self) -> None:
        """Wait for each asynchronous call in a thread of ours, to tell when it was done.

        In the order of their issue: a call that overtakes another is told done with that one.
        """
        get, wait, end = self.to_end.get, self._wait, self.log.rows.end
        while (one := get()) is not None:
            event, work = one
            try:
                wait(work)
                end(event, _clock())
            except Exception:  # noqa: S110  # whoever waits for it in the script hears of it
                pass
            del one, work  # or the tensors of the last call would live until the next

    def new_group(self, group: Any) -> int:
        """Write down a group that was not met before; its number."""
        self.meets_group()
        self._number_of_groups += 1
        number = self._number_of_groups
        self.groups[id(group)] = ref(group), number
        description = _answer(lambda: group.group_desc, "")
        rank, size = _answer(group.rank, 0), _answer(group.size, 1)
        self.log.note(
            group=number,
            name=_answer(lambda: group.group_name, ""),
            description="" if description == "undefined" else description,
            ranks=compat.ranks_of(group),
            rank=rank,
            size=size,
            world_rank=dist.get_rank() if dist.is_initialized() else rank,
            world_size=dist.get_world_size() if dist.is_initialized() else size,
            backend=_answer(lambda: compat.backend_of(group), ""),
            threads=torch.get_num_threads(),
        )
        return number


def _answer(ask: Callable[[], T], otherwise: T) -> T:
    """What a group says of itself, or something else where it raises.

    One that torch does not know, or whose class is of Python, may have no name, as torchft's.
    """
    try:
        return ask()
    except Exception:
        return otherwise


def _apart(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What tells tensors of calls apart; sparse ones also by how many values they have."""
    if tensor.is_sparse:
        return tensor.dtype, tensor.shape, ("sparse", tensor._nnz())
    return tensor.dtype, tensor.shape, tensor.is_contiguous()


def work_in(result: Any) -> Any:
    """The Work that an operator came back with; None where there is none."""
    boxed = result[-1] if isinstance(result, tuple) else result
    return None if boxed is None else compat.Work.unbox(boxed)
