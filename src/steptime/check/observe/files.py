"""Files: which file each rank saves, opens to write, loads or removes, and when."""

import builtins
import io
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import Function, all_of, before, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.imports import once_imported
from steptime.record.places import is_ours, site

FILE = "file"
"""What is noted of a file that was saved or loaded."""

BEGUN, REMOVED = "saving", "removed"
"""What is noted of a file as it begins to be saved, and of one, or a folder, that is removed."""

_MOST = 500
_ANEW = frozenset("wx")
_LOCK = "lock"
"""How the suffix ends of a file that a rank makes to keep the others off another, as x.json.lock
is for x.json."""
_NOT_ITS = ("/site-packages/torch/", "/steptime/record/", "/steptime/check/")
_SAFETENSORS = "safetensors.torch"


class Files:
    """The files of a process, as ``torch.save`` and its kin are given them."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._noted = 0
        self._locked: set[Path] = set()
        self._process = os.getpid()  # a DataLoader's worker has its own

    def note(self, file: Any, begin_ns: int, *, writes: bool) -> None:
        """A file, or what is open as one, was saved or loaded from ``begin_ns`` until now."""
        path = path_of(file)
        if path is not None and path.is_file():
            now = time.perf_counter_ns()
            beside = threading.current_thread() is not threading.main_thread()
            facts = {"writes": writes, "begin_ns": begin_ns, "end_ns": now, "beside": beside}
            self._note(FILE, path.resolve(), **facts)

    def opens(self, path: Any, frame: FrameType) -> None:
        """A file is opened to write it anew, in the script or in a package that it calls."""
        named = isinstance(path, str | os.PathLike | bytes)
        if not named or os.getpid() != self._process or not _is_by_script(frame):
            return
        file = Path(os.fsdecode(path))
        if file.suffix.endswith(_LOCK):
            self._locked.add(file.with_suffix(""))
        elif file not in self._locked and not file.is_relative_to("/dev"):
            now = time.perf_counter_ns()
            self._note(BEGUN, file.resolve(), at_ns=now)
            self._note(FILE, file.resolve(), writes=True, begin_ns=now, end_ns=now)

    def begins(self, file: Any) -> None:
        """A file, which may not be there yet, begins to be saved."""
        path = path_of(file)
        if path is not None:
            self._note(BEGUN, path.resolve(), at_ns=time.perf_counter_ns())

    def removes(self, path: Any, *_: Any, dir_fd: int | None = None, **__: Any) -> None:
        """A file, or a folder with all that is in it, is about to be removed."""
        if isinstance(path, str | os.PathLike) and dir_fd is None:  # else it is within that folder
            link = Path(os.fsdecode(path))  # which goes, and not what it leads to
            self._note(REMOVED, link.parent.resolve() / link.name, at_ns=time.perf_counter_ns())

    def _note(self, what: str, path: Path, **facts: Any) -> None:
        if self._noted < _MOST:
            self._noted += 1
            self._log.note(observed=what, path=str(path), at=site(self._log), **facts)


def _is_by_script(frame: FrameType | None) -> bool:
    """Whether nothing of torch or of ours stands between a frame and the script behind it."""
    while frame is not None and is_ours(frame):
        if any(one in frame.f_code.co_filename for one in _NOT_ITS):
            return False
        frame = frame.f_back
    return frame is not None


def path_of(file: Any) -> Path | None:
    """The path of a file that is given by name or open; None where that is not known."""
    path = file if isinstance(file, str | os.PathLike) else getattr(file, "name", None)
    return Path(os.fsdecode(path)) if isinstance(path, str | os.PathLike) else None


def _uses(
    position: int, note: Function, begins: Function | None = None
) -> Callable[[Function], Function]:
    """Note a function's file, its argument at ``position``, and from when to when it is used.

    ``begins``: what is told of a file that is written, before.
    """

    def watched(function: Function) -> Function:
        def noted(*arguments: Any, **options: Any) -> Any:
            begin_ns = time.perf_counter_ns()
            file = options.get("f", options.get("filename"))
            given = arguments[position] if len(arguments) > position else file
            if begins:
                begins(given)
            try:
                return function(*arguments, **options)
            finally:
                note(given, begin_ns, writes=begins is not None)

        return noted

    return watched


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    files, contained = Files(log), Contained("files")
    note, begins, removes = (contained.of(one) for one in (files.note, files.begins, files.removes))
    opens = contained.of(files.opens)

    def opening(function: Function) -> Function:
        def opened(file: Any, mode: Any = "r", *arguments: Any, **options: Any) -> Any:
            # An opener opens what it likes, as that of a NamedTemporaryFile is given the folder.
            by_name = isinstance(mode, str) and options.get("opener") is None
            if by_name and _ANEW.intersection(mode):
                opens(file, sys._getframe(1))
            return function(file, mode, *arguments, **options)

        return opened

    def of_safetensors() -> Callable[[], None]:
        return replaced([sys.modules[_SAFETENSORS]], "save_file", _uses(1, note, begins))

    return all_of(
        [
            replaced([builtins, io], "open", opening),
            *(before([os], name, removes) for name in ("remove", "unlink")),
            before([shutil], "rmtree", removes),
            replaced([torch], "save", _uses(1, note, begins)),
            replaced([torch], "load", _uses(0, note)),
            once_imported(_SAFETENSORS, of_safetensors),
        ]
    )


OBSERVER = Observer(_observe)
