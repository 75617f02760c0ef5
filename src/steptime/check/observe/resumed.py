"""Resumed: the steps and epochs of which the checkpoints are that a rank loads."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import after
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

RESUMED = "resumed"
"""What is noted of a checkpoint that is loaded: of which step it is, as it says itself."""

_WORDS = ("step", "epoch", "iter")
_MOST = 50


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    noted = 0

    def loaded(state: Any, *_: Any, **__: Any) -> None:
        nonlocal noted
        if not isinstance(state, Mapping) or noted >= _MOST:
            return
        counts = {
            name: value
            for name, value in state.items()
            if type(value) is int and isinstance(name, str) and any(w in name for w in _WORDS)
        }
        if counts:
            noted += 1
            log.note(observed=RESUMED, number=noted, counts=counts, at=site(log))

    return after([torch], "load", Contained("checkpoints that are loaded").of(loaded))


OBSERVER = Observer(_observe)
