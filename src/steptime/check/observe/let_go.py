"""Let go: gloo's threads drop the calls that they have made before their group is destroyed.

PyTorch 2.13 destroys a gloo group, at ``destroy_process_group`` or with the DDP model that has it,
while it holds the interpreter's lock, and joins the group's threads. One of them that has just
ended a barrier may still drop what the call keeps of Python (``at::ThreadLocalState``), for which
it wants that lock: both wait for ever. It is a matter of microseconds, unless the thread has lost
its processor meanwhile.
"""

import time
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import Function, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log

_PAUSE_S = 0.01
"""Within this a thread that is ready to run gets a processor, and the lock, which sleep lets go."""


def _observe(_: Log, __: Calls) -> Callable[[], None]:
    def pausing(destroy: Function) -> Function:
        def destroys(group: Any = None) -> None:
            time.sleep(_PAUSE_S)
            destroy(group)

        return destroys

    return replaced([dist, distributed_c10d], "destroy_process_group", pausing)


OBSERVER = Observer(_observe)
