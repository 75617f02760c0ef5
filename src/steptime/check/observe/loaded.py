"""Loaded: states of which a module takes nothing, for it has other names."""

from collections.abc import Callable
from typing import Any

import torch

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import Function, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site

LOADED = "loaded"
"""What is noted of a state that was loaded, of which no name was the module's."""

_MOST = 20


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    noted = 0

    def loaded(module: torch.nn.Module, missing: list[str], unexpected: list[str]) -> None:
        nonlocal noted
        own = module.state_dict().keys()
        if unexpected and own and own <= set(missing) and noted < _MOST:
            noted += 1
            log.note(
                observed=LOADED,
                names=len(own),
                own=next(iter(own)),
                given=unexpected[0],
                at=site(log),
            )

    note = Contained("loaded states").of(loaded)

    def loading(load: Function) -> Function:
        def loads(module: Any, *arguments: Any, **options: Any) -> Any:
            result = load(module, *arguments, **options)
            if missing := getattr(result, "missing_keys", None):  # it was not strict
                note(module, missing, result.unexpected_keys)
            return result

        return loads

    return replaced([torch.nn.Module], "load_state_dict", loading)


OBSERVER = Observer(_observe)
