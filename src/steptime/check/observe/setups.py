"""What makes groups: ``init_process_group`` and ``new_group``, which all ranks must call alike.

Neither is a call of c10d: they meet in a store. A rank that waits there has no call under way.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from steptime.check.calls import SET_UP, SETUP
from steptime.check.observe.observer import Observer
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site
from steptime.world import compat


def observe(log: Log, _: Calls) -> Callable[[], None]:
    """Note the beginning and the end of each."""
    numbers = iter(range(1, sys.maxsize))

    @contextmanager
    def around(kind: str, ranks: Sequence[int], world: int, started: int = 0) -> Iterator[None]:
        number = next(numbers)
        log.note(
            observed=SETUP,
            number=number,
            kind=kind,
            ranks=list(ranks),
            world=world,
            at=site(log),
            started=started,
            at_ns=time.perf_counter_ns(),
        )
        yield
        log.note(observed=SET_UP, number=number, at_ns=time.perf_counter_ns())

    init = dist.init_process_group

    @wraps(init)
    def init_process_group(*arguments: Any, **options: Any) -> Any:
        world = _world(options)
        with around("init_process_group", range(world), world, started=_started()):
            return init(*arguments, **options)

    modules: Sequence[Any] = (dist, distributed_c10d)
    for module in modules:
        module.init_process_group = init_process_group
    end = compat.observe_new_groups(lambda ranks: around("new_group", ranks, dist.get_world_size()))

    def remove() -> None:
        end()
        for module in modules:
            module.init_process_group = init

    return remove


def _world(options: dict[str, Any]) -> int:
    """The number of ranks that a call of ``init_process_group`` is to join; 0: not known."""
    given = options.get("world_size", -1)
    return int(given) if given > 0 else _started()


def _started() -> int:
    """How many ranks the launcher has started; 0: it does not say."""
    text = os.environ.get("WORLD_SIZE", "")
    return int(text) if text.isdecimal() else 0


OBSERVER = Observer(observe)
