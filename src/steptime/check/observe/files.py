"""Files: which file each rank saves or loads, and when."""

import os
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import torch

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.imports import once_imported
from steptime.record.places import site

FILE = "file"
"""What is noted of a file that was saved or loaded."""

_MOST = 500
_SAFETENSORS = "safetensors.torch"
_Function = Callable[..., Any]


class Files:
    """The files of a process, as ``torch.save`` and its kin are given them."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._noted = 0

    def note(self, file: Any, begin_ns: int, *, writes: bool) -> None:
        """A file, or what is open as one, was saved or loaded from ``begin_ns`` until now."""
        path = file if isinstance(file, str | os.PathLike) else getattr(file, "name", None)
        if self._noted >= _MOST or not isinstance(path, str | os.PathLike):
            return
        if not Path(path).is_file():
            return
        self._noted += 1
        self._log.note(
            observed=FILE,
            path=str(Path(path).resolve()),
            writes=writes,
            begin_ns=begin_ns,
            end_ns=time.perf_counter_ns(),
            at=site(self._log),
        )


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    note = Contained("files").of(Files(log).note)

    def watch(module: Any, name: str, position: int, *, writes: bool) -> Callable[[], None]:
        """Note a function's file, which is its argument at ``position``, once it has returned."""
        function: _Function = getattr(module, name)

        @wraps(function)
        def noted(*arguments: Any, **options: Any) -> Any:
            begin_ns = time.perf_counter_ns()
            try:
                return function(*arguments, **options)
            finally:
                file = options.get("f", options.get("filename"))
                given = arguments[position] if len(arguments) > position else file
                note(given, begin_ns, writes=writes)

        setattr(module, name, noted)
        return lambda: setattr(module, name, function)

    ends = [
        watch(torch, "save", 1, writes=True),
        watch(torch, "load", 0, writes=False),
        once_imported(
            _SAFETENSORS, lambda: watch(sys.modules[_SAFETENSORS], "save_file", 1, writes=True)
        ),
    ]

    def remove() -> None:
        for end in reversed(ends):
            end()

    return remove


OBSERVER = Observer(_observe)
