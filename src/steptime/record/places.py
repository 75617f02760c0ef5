"""Places: where in the user's own code a call is made."""

import sys
import sysconfig
from traceback import walk_tb
from types import CodeType, FrameType, TracebackType

import torch

from steptime.record.events import Log

OF_USER: dict[str, bool] = {}
"""Whether the code of a file is the user's own."""


def site(log: Log, frame: FrameType | None = None) -> int:
    """The number of the innermost place outside torch and steptime; 0 where there is none.

    It is looked for from ``frame`` outwards, or from the caller.
    """
    frame = frame or sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        of_user = OF_USER.get(code.co_filename)
        if of_user or (of_user is None and is_of_user(code)):
            return log.site(code, frame.f_lineno)
        frame = frame.f_back
    return 0


def is_of_user(code: CodeType) -> bool:
    """Whether code is neither torch's nor steptime's, nor what wraps them."""
    file = code.co_filename
    known = OF_USER.get(file)
    if known is None:
        known = OF_USER[file] = not _is_ours(file)
    return known


def is_ours(frame: FrameType) -> bool:
    """Whether a frame runs code of torch, of steptime, or of what wraps them."""
    return not is_of_user(frame.f_code)


def raised_at(trace: TracebackType | None) -> tuple[CodeType, int] | None:
    """The innermost code of the user's own, and its line, in the trace of an exception."""
    of_user = [(frame.f_code, line) for frame, line in walk_tb(trace) if not is_ours(frame)]
    return of_user[-1] if of_user else None


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


def _is_ours(file: str) -> bool:
    wrapped = file.startswith(_WRAPPERS) and "/site-packages/" not in file
    return wrapped or file.startswith(_PACKAGES) or file.endswith("/typing_extensions.py")
