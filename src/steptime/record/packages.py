"""Installed packages in a stack: which frames are theirs, which of those say why a call is made.

A framework such as DeepSpeed makes every call in one function of its own, below a dozen others: the
line of that function tells nobody which call it is. So a place in the code is the line of the
script, and beside it the innermost line of a package that does not only hand the call on.
"""

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

Frame = TypeVar("Frame")

_HANDS_ON = re.compile(
    r"_*(dist_)?i?"
    r"(all_?reduce|all_?gather|all_?to_?all|reduce_?scatter|broadcast|barrier|gather|scatter|reduce"
    r"|send|recv|wait)(_into_tensor|_tensor|_single|_coalesced|_object|_object_list|_fn)?"
    r"|\w*wrap\w*"
)


def is_of_package(file: str) -> bool:
    """Whether a file of code belongs to an installed package."""
    return "/site-packages/" in file or "/dist-packages/" in file


def place_and_via(
    frames: Iterable[Frame], told: Callable[[Frame], tuple[str, str]]
) -> tuple[Frame, Frame | None] | None:
    """The innermost frame of the script, and the frame of a package inside it via which it calls.

    ``frames``: the innermost first, none of them torch's or Python's own. ``told``: the file and
    the function of a frame. Where no frame is the script's, that of a package alone; None where
    there are no frames.
    """
    innermost: Frame | None = None
    via: Frame | None = None
    for frame in frames:
        file, function = told(frame)
        if not is_of_package(file):
            return frame, via
        innermost = innermost or frame
        if via is None and not hands_on(function):
            via = frame
    alone = via or innermost
    return (alone, None) if alone is not None else None


def hands_on(function: str) -> bool:
    """Whether a function of a package, by its name, only hands a call on.

    It is called as the call is, such as ``all_reduce``, or is what a decorator puts around one.
    """
    return _HANDS_ON.fullmatch(function) is not None
