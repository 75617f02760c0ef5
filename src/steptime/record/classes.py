"""Calls of groups that are Python classes, as ``steptime``'s own: their methods are called at once.

Neither Python's ``dist.all_reduce`` nor C++ passes the dispatcher on its way to a method that such
a class defines. So these methods are replaced, in the classes that there are and in those to come;
likewise ``wait`` of every class of Works, and how their futures are had and waited for.
"""

import time
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch

from steptime.record.calls import OVER, Calls
from steptime.record.events import Time
from steptime.record.futures import Futures
from steptime.record.kernels import method_in_c
from steptime.record.operations import FROM_ANY, METHODS, OPERATIONS, Detail, Operation
from steptime.world import compat

_clock = time.perf_counter_ns


def watch_classes(calls: Calls) -> Callable[[], None]:
    """See the calls of groups that are Python classes, and every wait; the result ends that."""
    replaced: list[tuple[Any, str, Any]] = []
    futures = Futures(calls)

    def replace(kind: Any, name: str, method: Callable[..., Any]) -> None:
        replaced.append((kind, name, kind.__dict__[name]))
        setattr(kind, name, method)

    def of_group(kind: type) -> None:
        for name, number in METHODS.items():
            if callable(method := kind.__dict__.get(name)):
                replace(kind, name, _method(calls, number, OPERATIONS[number], method))

    def of_work(kind: type) -> None:
        if callable(wait := kind.__dict__.get("wait")):
            replace(kind, "wait", calls.waiting(wait))
        if callable(get_future := kind.__dict__.get("get_future")):
            replace(kind, "get_future", futures.getting(get_future))

    replace(compat.Future, "wait", futures.waiting(compat.Future.wait))
    replace(compat.Future, "done", futures.asking(compat.Future.done))
    replace(compat.Future, "then", futures.following(compat.Future.then))
    replace(torch._C, "_collect_all", futures.collecting(torch._C._collect_all))
    of_work(compat.Work)
    ends = [
        compat.each_subclass(compat.ProcessGroup, of_group),
        compat.each_subclass(compat.Work, of_work),
    ]

    def remove() -> None:
        for end in ends:
            end()
        for kind, name, method in reversed(replaced):
            setattr(kind, name, method)

    return remove


def _method(
    calls: Calls, number: int, operation: Operation, method: Callable[..., Any]
) -> Callable[..., Any]:
    """A method of a class of groups that writes down its calls, in C where that can be."""

    def pending(event: int, work: Any) -> None:
        calls.may_be_waited(work, event, number)
        if (when_done := getattr(work, "when_done", None)) is not None:
            when_done(partial(_ended, calls, event))

    return method_in_c(
        calls,
        number,
        operation,
        method,
        vector=partial(_tensors, operation),
        detail=partial(_detail, operation, None),
        pending=pending,
        otherwise=_method_in_python(calls, number, operation, method, pending),
    )


def _method_in_python(
    calls: Calls,
    number: int,
    operation: Operation,
    method: Callable[..., Any],
    pending: Callable[[int, Any], None],
) -> Callable[..., Any]:
    rows, of_thread, watchers = calls.log.rows, calls.of_thread, calls.watchers

    @wraps(method)
    @compat.left_alone
    def call(group: Any, *arguments: Any, **options: Any) -> Any:
        if of_thread.inside:
            return method(group, *arguments, **options)
        last = options.get("opts", arguments[-1] if arguments else None)
        waits, peer = not getattr(last, "asyncOp", True), _peer(operation, arguments, last)
        if operation.reduces:
            of_thread.reduction = getattr(last, "reduceOp", None)
        for watcher in watchers:
            watcher.issued(operation, group, arguments, peer=peer, asynchronous=not waits)
        marks = calls.marks
        mark = marks.take() if marks else None
        tensors = _tensors(operation, arguments)
        detail = _detail(operation, group, arguments)
        event = calls.begin(
            number, operation, operation.reduces, group, tensors, waits, peer, detail
        )
        of_thread.inside = True
        try:
            work = method(group, *arguments, **options)
        except BaseException:
            rows.waited(event, rows.issued(event), _clock())  # and it has no end: the call failed
            raise
        finally:
            of_thread.inside = False
            returned = _clock()
            rows.returned(event, returned)
        if marks:
            marks.keep(event, Time.ISSUED, mark)
        for watcher in watchers:
            watcher.returned(work)
        if work is None or work.is_completed():
            # Nobody need wait for it: what the call took was the waiting.
            if marks:
                marks.keep(event, Time.RETURNED, marks.take())
            rows.end(event, returned)
            rows.waited(event, rows.issued(event) if waits else returned, returned)
            if waits:
                of_thread.at_once = OVER
            if number == FROM_ANY and work is not None:
                calls.received(event, work)
            return work
        pending(event, work)
        return work

    return call


def _peer(operation: Operation, arguments: tuple[Any, ...], options: Any) -> int:
    """The root or the peer of a call, which a message has among its arguments; -1: none."""
    if operation.peer < 0:
        return -1
    return int(arguments[1] if operation.is_message else getattr(options, "rootRank", 0))


def _tensors(operation: Operation, arguments: tuple[Any, ...]) -> list[torch.Tensor]:
    """The tensors that count; none where a class takes other arguments than torch passes."""
    try:
        tensors = operation.vector(arguments)
    except (IndexError, TypeError):
        return []
    return [tensor for tensor in tensors if isinstance(tensor, torch.Tensor)]


def _detail(operation: Operation, group: Any, arguments: tuple[Any, ...]) -> Detail:
    """What else must fit; the operator has the same arguments and the group among them."""
    if operation.detail is None:
        return ()
    try:
        return operation.detail(
            (*arguments[: operation.group], group, *arguments[operation.group :])
        )
    except (IndexError, TypeError, ValueError, AttributeError):
        return ()


def _ended(calls: Calls, event: int, well: bool) -> None:
    if well:
        calls.log.rows.end(event, _clock())
