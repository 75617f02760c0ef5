"""Objects: tensors that a script sends pickled, and shards of which it makes the whole tensor."""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from steptime.check.observe.buffers import tensors_in
from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import Function, all_of, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.imports import once_imported
from steptime.record.places import site

OBJECTS = "objects"
"""What is noted of a call that sends objects: from when to when, and the tensors' bytes in them."""

WHOLE = "full_tensor"
"""What is noted likewise of a DTensor that all ranks make whole."""

_POSITIONS = {
    "all_gather_object": 1,
    "gather_object": 0,
    "broadcast_object_list": 0,
    "scatter_object_list": 1,
}
"""Which argument holds what is sent."""

_MOST = 500
_DTENSOR = "torch.distributed.tensor"


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    noted = 0

    def sent(name: str, value: Any, begin_ns: int) -> None:
        nonlocal noted
        nbytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors_in(value))
        if nbytes and noted < _MOST:
            noted += 1
            end_ns, at = time.perf_counter_ns(), site(log)
            log.note(
                observed=OBJECTS,
                name=name,
                nbytes=nbytes,
                begin_ns=begin_ns,
                end_ns=end_ns,
                last=noted == _MOST,
                at=at,
            )

    note = Contained("objects").of(sent)

    def sending(function: Function) -> Function:
        position = _POSITIONS[function.__name__]

        def sends(*arguments: Any, **options: Any) -> Any:
            given = arguments[position] if len(arguments) > position else [*options.values()]
            begin_ns = time.perf_counter_ns()
            result = function(*arguments, **options)
            note(function.__name__, given, begin_ns)
            return result

        return sends

    def making_whole(function: Function) -> Function:
        def makes(*arguments: Any, **options: Any) -> Any:
            begin_ns = time.perf_counter_ns()
            result = function(*arguments, **options)
            if not torch.compiler.is_compiling():
                note(WHOLE, result, begin_ns)
            return result

        return makes

    def of_dtensors() -> Callable[[], None]:
        return replaced([sys.modules[_DTENSOR].DTensor], WHOLE, making_whole)

    ends = [replaced([dist, distributed_c10d], name, sending) for name in _POSITIONS]
    ends.append(once_imported(_DTENSOR, of_dtensors))

    return all_of(ends)


OBSERVER = Observer(_observe)
