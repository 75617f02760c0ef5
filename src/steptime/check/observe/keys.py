"""Waits of the script for a key of a store, in which ranks leave word for one another.

Such a wait is no call of c10d: any process that has the store may set the key. PyTorch itself waits
for keys while it sets up groups, which is noted as that.
"""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import torch.distributed as dist

from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import Function, all_of, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import is_of_user, site
from steptime.world import compat

KEY, KEY_DONE = "key", "key done"
"""What is noted when such a wait begins, and when it is over."""

_WAITS = ("get", "multi_get", "wait")
_MOST = 3  # keys of one wait that are noted


def observe(log: Log, _: Calls) -> Callable[[], None]:
    """Note each wait of the script's main thread for a key that is not set yet."""
    numbers = count(1)

    def waiting(function: Function) -> Function:
        def wait(self: Any, asked: Any, *arguments: Any) -> Any:
            keys = [asked] if isinstance(asked, str) else list(asked)
            is_main = threading.current_thread() is threading.main_thread()
            of_script = is_main and is_of_user(sys._getframe(1).f_code)
            if not of_script or _are_set(self, keys):
                return function(self, asked, *arguments)
            number, done = next(numbers), False
            log.note(
                observed=KEY,
                number=number,
                kind=f"store.{function.__name__}",
                keys=keys[:_MOST],
                world=dist.get_world_size() if compat.is_default_store(self) else 0,
                at=site(log),
                at_ns=time.perf_counter_ns(),
            )
            try:
                result = function(self, asked, *arguments)
                done = True
                return result
            finally:
                log.note(observed=KEY_DONE, number=number, at_ns=time.perf_counter_ns(), done=done)

        return wait

    return all_of([replaced([compat.Store], name, waiting) for name in _WAITS])


def _are_set(store: compat.Store, keys: Sequence[str]) -> bool:
    """Whether a wait for keys ends at once, as it does, too, where the store cannot be asked."""
    try:
        return store.check(list(keys))
    except RuntimeError:
        return True


OBSERVER = Observer(observe)
