"""Loaded: states of which a module takes nothing, for it has other names."""

from collections.abc import Callable
from typing import Any

import torch

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import after
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

LOADED = "loaded"
"""What is noted of a state that was loaded, of which no name was the module's."""

_MOST = 20


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    noted = 0

    def loaded(result: Any, module: torch.nn.Module, *_: Any, **__: Any) -> None:
        nonlocal noted
        missing = getattr(result, "missing_keys", None)
        if not missing or not result.unexpected_keys or noted == _MOST:  # none where it is strict
            return
        own = module.state_dict().keys()
        if own <= set(missing):
            noted += 1
            log.note(
                observed=LOADED,
                names=len(own),
                own=next(iter(own)),
                given=result.unexpected_keys[0],
                at=site(log),
            )

    look = Contained("loaded states").of(loaded)
    return after([torch.nn.Module], "load_state_dict", look)


OBSERVER = Observer(_observe)
