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
from steptime.check.observe.arguments import given
from steptime.check.observe.observer import Observer
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site
from steptime.world import compat


def observe(log: Log, _: Calls) -> Callable[[], None]:
    """Note the beginning and the end of each."""
    numbers = iter(range(1, sys.maxsize))

    @contextmanager
    def around(
        kind: str, ranks: Sequence[int], world: int, started: int = 0, joins_as: int = -1
    ) -> Iterator[None]:
        number = next(numbers)
        log.note(
            observed=SETUP,
            number=number,
            kind=kind,
            ranks=list(ranks),
            world=world,
            at=site(log),
            started=started,
            joins_as=joins_as,
            launched_as=_number("RANK", -1),
            at_ns=time.perf_counter_ns(),
        )
        yield
        log.note(observed=SET_UP, number=number, at_ns=time.perf_counter_ns())

    init = dist.init_process_group

    @wraps(init)
    def init_process_group(*arguments: Any, **options: Any) -> Any:
        started = _number("WORLD_SIZE", 0)
        named = given(init, *arguments, **options)
        world, rank = named.get("world_size", -1), named.get("rank", -1)
        world = world if world > 0 else started
        rank = rank if rank >= 0 else _number("RANK", -1)
        with around("init_process_group", range(world), world, started, rank):
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


def _number(variable: str, otherwise: int) -> int:
    """A number that the launcher has set; ``otherwise`` where it says nothing."""
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else otherwise


OBSERVER = Observer(observe)
