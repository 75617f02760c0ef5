"""What makes groups: ``init_process_group`` and ``new_group``, which all ranks must call alike.

Neither is a call of c10d: they meet in a store. A rank that waits there has no call under way.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlparse

import torch.distributed as dist
from torch.distributed import distributed_c10d

from steptime.check.calls import SET_UP, SETUP
from steptime.check.observe.arguments import given
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import Function, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site
from steptime.world import compat


def observe(log: Log, _: Calls) -> Callable[[], None]:
    """Note the beginning and the end of each."""
    numbers = iter(range(1, sys.maxsize))

    @contextmanager
    def around(
        kind: str,
        ranks: Sequence[int],
        world: int,
        started: int = 0,
        joins_as: int = -1,
        meets_at: str = "",
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
            meets_at=meets_at,
            launched_as=launchers_number("RANK", -1),
            at_ns=time.perf_counter_ns(),
        )
        yield
        log.note(observed=SET_UP, number=number, at_ns=time.perf_counter_ns())

    def setting_up(init: Function) -> Function:
        def sets_up(*arguments: Any, **options: Any) -> Any:
            started = launchers_number("WORLD_SIZE", 0)
            named = given(init, *arguments, **options)
            world, rank = named.get("world_size", -1), named.get("rank", -1)
            world = world if world > 0 else started
            rank = rank if rank >= 0 else launchers_number("RANK", -1)
            meets_at = _meeting_place(named)
            with around("init_process_group", range(world), world, started, rank, meets_at):
                return init(*arguments, **options)

        return sets_up

    end_of_init = replaced([dist, distributed_c10d], "init_process_group", setting_up)
    end = compat.observe_new_groups(lambda ranks: around("new_group", ranks, dist.get_world_size()))

    def remove() -> None:
        end()
        end_of_init()

    return remove


def _meeting_place(named: Mapping[str, Any]) -> str:
    """The port or the file at which the ranks of a group find one another; "" where it is neither.

    A host has several names, which are not compared.
    """
    method = named.get("init_method") or "env://"
    if named.get("store") is not None:
        return ""
    if method.startswith("file://"):
        return f"the file {urlparse(method).path}"
    if method.startswith("tcp://"):
        port: int | str | None = urlparse(method).port
    else:
        port = os.environ.get("MASTER_PORT") if method.startswith("env://") else None
    return f"port {port}" if port else ""


def launchers_number(variable: str, otherwise: int) -> int:
    """A number that the launcher has set; ``otherwise`` where it says nothing."""
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else otherwise


OBSERVER = Observer(observe)
