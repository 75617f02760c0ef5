"""Every call of c10d, seen where all of them pass: in torch's dispatcher.

Python's ``dist.all_reduce``, the reducer of DDP, FSDP2, DTensor, functional collectives and graphs
that torch.compile made all call one of the operators of ``c10d``. A kernel of ours for the key
BackendSelect, which is always set and which these operators leave unused, runs first, notes the
time, and passes the call on. Two things this must not do, and does not: to hold the interpreter's
lock while C++ communicates (gloo's threads want it to free a tensor while they hold a lock that the
call takes), and to keep a Work or a tensor alive for longer than it takes.

Groups that are Python classes do not pass here; ``classes.py`` sees those.
"""

import time
from collections.abc import Callable
from typing import Any

import torch

from steptime.record.calls import Calls, work_in
from steptime.record.classes import watch_classes
from steptime.record.dispatch import in_dispatcher
from steptime.record.events import Kind, Time
from steptime.record.kernels import kernel_in_c
from steptime.record.operations import FROM_ANY, OPERATIONS, Operation
from steptime.record.places import site
from steptime.record.rows import in_c, recorder
from steptime.record.tensors import address
from steptime.world import compat

_below = compat.BELOW
_clock = time.perf_counter_ns

_REDUCING = (
    "all_reduce",
    "all_reduce_",
    "all_reduce_coalesced",
    "all_reduce_coalesced_",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced",
    "reduce_scatter_tensor_out",
)
"""The functional collectives that name a reduction, which they pass on as C++ alone can read it."""


def install(calls: Calls) -> Callable[[], None]:
    """See every call from now on; the result ends that."""
    library = torch.library.Library("c10d", "IMPL")
    dispatcher = in_dispatcher()
    key = compat.SPARE_KEY if dispatcher else "BackendSelect"
    kernels = {}
    for number, operation in enumerate(OPERATIONS):
        if hasattr(torch.ops.c10d, operation.name):
            kernels[number] = _kernel(calls, number, operation)
            library.impl(operation.name, kernels[number], key, with_keyset=True)
    if dispatcher:
        operations = [_as_cpp_has_it(number, kernel) for number, kernel in kernels.items()]
        calls.forgets = dispatcher.forget
        dispatcher.install(calls=calls, functions=recorder.functions, operations=operations)
    functional = torch.library.Library("_c10d_functional", "IMPL")
    wait_tensor = _wait_kernel(calls)
    functional.impl("wait_tensor", wait_tensor, "BackendSelect", with_keyset=True)
    if hasattr(torch.ops._c10d_functional, "wait_tensors"):  # from torch 2.15 on

        def wait_tensors(keyset: Any, tensors: Any) -> Any:
            return [wait_tensor(keyset, one) for one in tensors]

        functional.impl("wait_tensors", wait_tensors, "BackendSelect", with_keyset=True)
    for name in _REDUCING:
        if hasattr(torch.ops._c10d_functional, name):
            kernel = _reducing_kernel(calls, name)
            functional.impl(name, kernel, "BackendSelect", with_keyset=True)
    of_thread = calls.of_thread

    def chosen(reduction: Any) -> None:
        of_thread.reduction = reduction

    ends = [watch_classes(calls), compat.watch_reductions(chosen)]

    def remove() -> None:
        for end in ends:
            end()
        if dispatcher:
            dispatcher.uninstall()
        library._destroy()
        functional._destroy()

    return remove


def _kernel(calls: Calls, number: int, operation: Operation) -> Callable[..., Any]:
    of_thread, watchers, unbox = calls.of_thread, calls.watchers, compat.ProcessGroup.unbox
    at_group, at_peer, at_async = operation.group, operation.peer, operation.asynchronous
    vector, reduces, detail = operation.vector, operation.reduces, operation.detail
    redispatch = compat.redispatch("c10d", operation.name)

    @compat.left_alone
    def call(keyset: Any, *arguments: Any) -> Any:
        if of_thread.inside:
            return redispatch(keyset & _below, *arguments)
        # torch leaves out trailing arguments that have their default, which is asynchronous.
        waits = at_async >= 0 and len(arguments) > at_async and not arguments[at_async]
        group, peer = unbox(arguments[at_group]), arguments[at_peer] if at_peer >= 0 else -1
        for watcher in watchers:
            watcher.issued(operation, group, arguments, peer=peer, asynchronous=not waits)
        marks = calls.marks
        mark = marks.take() if marks else None
        more = detail(arguments) if detail is not None else ()
        event = calls.begin(number, operation, reduces, group, vector(arguments), waits, peer, more)
        result = redispatch(keyset & _below, *arguments)
        returned = _clock()
        if marks:
            marks.keep(event, Time.ISSUED, mark)
        if waits and not (watchers or marks):
            calls.awaits(event, returned)
            return result
        work = calls.went(event, returned, work_in(result), number, waits)
        for watcher in watchers:
            watcher.returned(work)
        return result

    if not in_c():
        return call
    return kernel_in_c(calls, number, operation, redispatch=redispatch, otherwise=call)


def _as_cpp_has_it(number: int, kernel: Callable[..., Any]) -> dict[str, Any]:
    """An operation, with its kernel in Python, and which arguments tell its calls apart."""
    operation = OPERATIONS[number]
    schema = getattr(torch.ops.c10d, operation.name).default._schema
    apart = (operation.group, operation.peer, operation.asynchronous)
    telling = [
        at
        for at, argument in enumerate(schema.arguments)
        if at not in apart and argument.name not in ("timeout", "device_ids", "wait_all_ranks")
    ]
    return {
        "name": operation.name,
        "number": number,
        "group": operation.group,
        "peer": operation.peer,
        "waits": operation.asynchronous,
        "tensors": operation.tensors,
        "reduces": operation.reduces,
        "is_message": operation.is_message,
        "from_any": number == FROM_ANY,
        "telling": telling,
        "in_python": kernel,
    }


def _wait_kernel(calls: Calls) -> Callable[..., Any]:
    log, rows, of_thread = calls.log, calls.log.rows, calls.of_thread
    redispatch = compat.redispatch("_c10d_functional", "wait_tensor")

    @compat.left_alone
    def wait_tensor(keyset: Any, *arguments: Any) -> Any:
        if of_thread.waiting or arguments[0].is_meta:  # the compiler asks for its shape alone
            return redispatch(keyset & _below, *arguments)
        of_thread.waiting = True
        for watcher in calls.watchers:
            watcher.waiting(None)
        marks = calls.marks
        mark = marks.take() if marks else None
        event = rows.write(Kind.WAIT, _clock(), site=site(log), address=address(arguments))
        try:
            result = redispatch(keyset & _below, *arguments)
        finally:
            of_thread.waiting = False
            rows.end(event, _clock())
        if marks:
            marks.keep(event, Time.ISSUED, mark)
            marks.keep(event, Time.ENDED, marks.take())
        return result

    return wait_tensor


def _reducing_kernel(calls: Calls, name: str) -> Callable[..., Any]:
    of_thread, redispatch = calls.of_thread, compat.redispatch("_c10d_functional", name)
    schema = getattr(torch.ops._c10d_functional, name).default._schema
    at = [argument.name for argument in schema.arguments].index("reduce_op")

    @compat.left_alone
    def reducing(keyset: Any, *arguments: Any) -> Any:
        of_thread.reduction = arguments[at]
        return redispatch(keyset & _below, *arguments)

    return reducing
