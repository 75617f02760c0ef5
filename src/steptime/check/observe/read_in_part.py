"""Read in part: a value of which each rank has a part, read as if it were the whole."""

import sys
from collections.abc import Callable
from typing import Any

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import after, all_of
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.imports import once_imported
from steptime.record.places import site
from steptime.world import compat

READ_IN_PART = "read in part"
"""What is noted of a DTensor that is read on a rank, which has but a part of its value."""

_DTENSOR = "torch.distributed.tensor"
_READERS = ("item", "__float__", "__int__", "__bool__")
_MOST = 20


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    noted = 0

    def read(value: Any, tensor: Any) -> None:
        nonlocal noted
        mesh = tensor.device_mesh
        parts = [
            at
            for at, placement in enumerate(tensor.placements)
            if placement.is_partial() and mesh.size(at) > 1
        ]
        if parts and noted < _MOST:
            noted += 1
            log.note(
                observed=READ_IN_PART,
                value=float(value),
                placement=str(tensor.placements[parts[0]]),
                ranks=list(compat.ranks_of(mesh.get_group(parts[0]))),
                at=site(log),
            )

    look = Contained("values read in part").of(read)

    def watch() -> Callable[[], None]:
        kinds = [sys.modules[_DTENSOR].DTensor]
        return all_of([after(kinds, name, look) for name in _READERS])

    return once_imported(_DTENSOR, watch)


OBSERVER = Observer(_observe)
