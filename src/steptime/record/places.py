"""Places: where in the user's own code a call is made."""

import sys
import sysconfig
from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import islice
from pathlib import Path
from traceback import walk_tb
from types import CodeType, FrameType, TracebackType
from zlib import crc32

import torch

from steptime.record.events import Log
from steptime.record.packages import is_of_package, place_and_via


class Origin(IntEnum):
    """Whose code a file holds; the recorder in C has these numbers, too."""

    OURS = 0
    """torch's, steptime's, or what wraps them."""

    SCRIPT = 1
    """The user's own."""

    PACKAGE = 2
    """An installed package's."""


Line = tuple[CodeType, int]

_INNERMOST = 8

ORIGINS: dict[str, Origin] = {}
"""The origin of each file of code that was met."""


def site(log: Log, frame: FrameType | None = None) -> int:
    """The number of the innermost place of the script; 0 where there is none.

    It is looked for from ``frame`` outwards, or from the caller. Where a package calls for the
    script, the place has its line beside, and where no script does, the package's alone.
    """
    frame = frame or sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        whose = ORIGINS.get(code.co_filename)
        if whose is None:
            whose = origin(code)
        if whose == Origin.SCRIPT:
            return log.site(code, frame.f_lineno)
        if whose == Origin.PACKAGE:
            return site_in_package(log, frame)
        frame = frame.f_back
    return 0


def site_in_package(log: Log, innermost: FrameType) -> int:
    """The number of the place from whose innermost frame outside torch a package calls."""
    found = _place_and_via(_outwards(innermost))
    return log.site(*found[0], found[1]) if found else 0


def way(frame: FrameType | None) -> int:
    """A number for how the user's code came to a frame, by its innermost lines.

    It tells the callers of one helper apart, and is the same on all ranks that come there alike.
    """
    lines = (line for line in _outwards(frame) if is_of_user(line[0]))
    innermost = islice(lines, _INNERMOST)
    return crc32("".join(f"{code.co_qualname}:{line};" for code, line in innermost).encode())


def origin(code: CodeType) -> Origin:
    """Whose some code is."""
    file = code.co_filename
    known = ORIGINS.get(file)
    if known is None:
        own = Origin.PACKAGE if is_of_package(file) else Origin.SCRIPT
        known = ORIGINS[file] = Origin.OURS if _is_ours(file) else own
    return known


def is_of_user(code: CodeType) -> bool:
    """Whether code is neither torch's nor steptime's, nor what wraps them."""
    return origin(code) != Origin.OURS


def is_ours(frame: FrameType) -> bool:
    """Whether a frame runs code of torch, of steptime, or of what wraps them."""
    return not is_of_user(frame.f_code)


def raised_at(trace: TracebackType | None) -> tuple[Line, Line | None] | None:
    """The innermost line of the script in the trace of an exception, and that of a package in it.

    The package's alone where none of the script is in it; None where neither is.
    """
    lines = [(frame.f_code, line) for frame, line in walk_tb(trace)]
    return _place_and_via(reversed(lines))


def _place_and_via(lines: Iterable[Line]) -> tuple[Line, Line | None] | None:
    of_user = (line for line in lines if is_of_user(line[0]))
    return place_and_via(of_user, lambda line: (line[0].co_filename, line[0].co_name))


def _outwards(frame: FrameType | None) -> Iterator[Line]:
    while frame is not None:
        yield frame.f_code, frame.f_lineno
        frame = frame.f_back


def is_of_script(frame: FrameType | None) -> bool:
    """Whether what happens in a frame is done for the script, and not by steptime's backend."""
    while frame is not None and is_ours(frame):
        if frame.f_code.co_filename.startswith(_BACKEND):
            return False
        frame = frame.f_back
    return frame is not None


_PACKAGES = tuple(module.__path__[0] + "/" for module in (torch, sys.modules["steptime"]))
_BACKEND = _PACKAGES[1] + "backend/"
_WRAPPERS = (sysconfig.get_path("stdlib") + "/", "<frozen", "<string>")
"""Where decorators and context managers of the standard library wrap what torch offers."""

_COMMANDS = sysconfig.get_path("scripts") + "/"
"""Where pip puts the files, without a suffix, by which installed programs are started."""


def _is_ours(file: str) -> bool:
    wrapped = file.startswith(_WRAPPERS) and not is_of_package(file)
    started = file.startswith(_COMMANDS) and not Path(file).suffix
    ours = file.startswith(_PACKAGES) or file.endswith("/typing_extensions.py")
    return wrapped or started or ours
