"""Files: which file each rank saves, loads or removes, and when."""

import os
import shutil
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

BEGUN, REMOVED = "saving", "removed"
"""What is noted of a file as it begins to be saved, and of one, or a folder, that is removed."""

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
        path = _path_of(file)
        if path is not None and path.is_file():
            now = time.perf_counter_ns()
            self._note(FILE, path.resolve(), writes=writes, begin_ns=begin_ns, end_ns=now)

    def begins(self, file: Any) -> None:
        """A file, which may not be there yet, begins to be saved."""
        path = _path_of(file)
        if path is not None:
            self._note(BEGUN, path.resolve(), at_ns=time.perf_counter_ns())

    def removes(self, path: Any) -> None:
        """A file, or a folder with all that is in it, is about to be removed."""
        if isinstance(path, str | os.PathLike):
            link = Path(os.fsdecode(path))  # which goes, and not what it leads to
            self._note(REMOVED, link.parent.resolve() / link.name, at_ns=time.perf_counter_ns())

    def _note(self, what: str, path: Path, **facts: Any) -> None:
        if self._noted < _MOST:
            self._noted += 1
            self._log.note(observed=what, path=str(path), at=site(self._log), **facts)


def _path_of(file: Any) -> Path | None:
    path = file if isinstance(file, str | os.PathLike) else getattr(file, "name", None)
    return Path(os.fsdecode(path)) if isinstance(path, str | os.PathLike) else None


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    files, contained = Files(log), Contained("files")
    note, begins, removes = (contained.of(one) for one in (files.note, files.begins, files.removes))

    def watch(module: Any, name: str, position: int, *, writes: bool) -> Callable[[], None]:
        """Note a function's file, which is its argument at ``position``, once it has returned."""
        function: _Function = getattr(module, name)

        @wraps(function)
        def noted(*arguments: Any, **options: Any) -> Any:
            begin_ns = time.perf_counter_ns()
            file = options.get("f", options.get("filename"))
            given = arguments[position] if len(arguments) > position else file
            if writes:
                begins(given)
            try:
                return function(*arguments, **options)
            finally:
                note(given, begin_ns, writes=writes)

        setattr(module, name, noted)
        return lambda: setattr(module, name, function)

    def watch_removal(module: Any, name: str) -> Callable[[], None]:
        """Note what a function is given to remove, by its whole path."""
        function: _Function = getattr(module, name)

        @wraps(function)
        def removing(path: Any, *arguments: Any, **options: Any) -> Any:
            if options.get("dir_fd") is None:  # else the path is one within that folder
                removes(path)
            return function(path, *arguments, **options)

        setattr(module, name, removing)
        return lambda: setattr(module, name, function)

    ends = [
        *(watch_removal(os, name) for name in ("remove", "unlink")),
        watch_removal(shutil, "rmtree"),
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
