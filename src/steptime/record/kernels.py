"""Kernels: calls that are written down in C, where that was built."""

from collections.abc import Callable, Sequence
from typing import Any

from steptime.record import places
from steptime.record.calls import Calls
from steptime.record.operations import FROM_ANY, Detail, Operation
from steptime.record.rows import in_c, recorder
from steptime.world import compat

_NO_PEER, _PEER, _ROOT = range(3)
"""Where a method of a group is told its peer; method.c has these numbers, too."""


def kernel_in_c(
    calls: Calls,
    number: int,
    operation: Operation,
    *,
    redispatch: Callable[..., Any] | None = None,
    otherwise: Callable[..., Any] | None = None,
    vector: Callable[..., Sequence[Any]] | None = None,
    detail: Callable[..., Detail] | None = None,
) -> recorder.Kernel:
    """What an operator of c10d calls first, in C, which leaves to ``otherwise`` what is watched.

    ``number`` is that of the operation. Between two calls a job computes, which empties the caches:
    Python takes three times as long there as in a loop, and C does not.
    """
    return recorder.Kernel(
        number=number,
        group=operation.group,
        peer=operation.peer,
        waits=operation.asynchronous,
        tensors=operation.tensors,
        depth=operation.depth,
        reduces=operation.reduces,
        times_group=operation.times_group,
        rows=calls.log.rows,
        calls=calls,
        log=calls.log,
        of_thread=calls.of_thread,
        watchers=calls.watchers,
        groups=calls.groups,
        signatures=calls.signatures,
        sites=calls.log.sites,
        origins=places.ORIGINS,
        origin=places.origin,
        site_in_package=places.site_in_package,
        reductions=compat.REDUCTIONS_AT_ONCE,
        reduction_name=compat.reduction_name,
        vector=vector or operation.vector,
        detail=detail or operation.detail,
        unbox=compat.ProcessGroup.unbox,
        unbox_work=compat.Work.unbox,
        redispatch=redispatch,
        below=compat.BELOW,
        otherwise=otherwise,
    )


def method_in_c(
    calls: Calls,
    number: int,
    operation: Operation,
    method: Callable[..., Any],
    *,
    vector: Callable[[tuple[Any, ...]], Sequence[Any]],
    detail: Callable[[tuple[Any, ...]], Detail],
    pending: Callable[[int, Any], None],
    otherwise: Callable[..., Any],
) -> Callable[..., Any]:
    """A method of a group that is a Python class, in C; ``otherwise`` where it cannot be.

    ``vector`` and ``detail`` take the arguments without the group. ``pending`` is told of a call
    whose Work is not done as it comes back.
    """
    if not in_c() or number == FROM_ANY:
        return otherwise
    rooted = _ROOT if operation.peer >= 0 else _NO_PEER
    return recorder.Method(
        peer=_PEER if operation.is_message and operation.peer >= 0 else rooted,
        reduces=operation.reduces,
        is_message=operation.is_message,
        rows=calls.log.rows,
        kernel=kernel_in_c(
            calls,
            number,
            operation,
            vector=vector,
            detail=detail if operation.detail is not None else None,
        ),
        calls=calls,
        of_thread=calls.of_thread,
        watchers=calls.watchers,
        reduction_name=compat.reduction_name,
        method=method,
        pending=pending,
        otherwise=otherwise,
    )
