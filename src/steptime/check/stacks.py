"""Stacks of a rank as ``faulthandler`` writes them: where in the script it is, and in what."""

import linecache
import re
import signal
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass

from steptime.check.finding import CallSite
from steptime.record.packages import is_of_package, place_and_via

SIGNAL = signal.SIGRTMAX - 5
"""A real-time signal, which scripts hardly use: launchers and schedulers take SIGUSR1 and 2."""

STACKS = ".stacks"
"""How the file of a process ends; its first line names the pipe by which it is asked."""

_FRAME = re.compile(r'  File "(.+)", line (\d+) in (.+)')
_HANDLING = re.compile(r'  Handling (\S+) of "(.+)", line (\d+): (.*)')
_THREAD = re.compile(r"(Current thread|Thread) 0x[0-9a-f]+ .*\(most recent call first\):")
_DEBUGGERS = ("/pdb.py", "/IPython/terminal/debugger.py", "/pudb/debugger.py")
_LOCKS = ("/torch/utils/file_baton.py", "/filelock/_api.py")
_LIBRARIES = (sysconfig.get_path("stdlib") + "/", "<frozen", "<string>")


@dataclass(frozen=True)
class Frame:
    """A frame of a stack."""

    file: str
    line: int
    function: str

    @property
    def of_torch(self) -> bool:
        """Whether it is PyTorch's."""
        return "/site-packages/torch/" in self.file

    @property
    def of_recorder(self) -> bool:
        """Whether it is of what records and watches the script."""
        return "/steptime/record/" in self.file or "/steptime/check/" in self.file

    @property
    def of_script(self) -> bool:
        """Whether it is none of PyTorch, Python and steptime."""
        ours = self.of_torch or self.of_recorder
        return not ours and (self.of_package or not self.file.startswith(_LIBRARIES))

    @property
    def of_package(self) -> bool:
        """Whether it is an installed package's."""
        return is_of_package(self.file)


@dataclass(frozen=True)
class Handled:
    """An exception in whose ``except`` or ``finally`` a rank stands, and where it was raised."""

    kind: str
    message: str
    place: CallSite


def main_frames(text: str) -> Sequence[Frame]:
    """The frames of the thread that runs the script, the innermost first; empty where none does."""
    return _frames(_main_thread(text))


def handled_by(text: str, rank: int) -> Handled | None:
    """What the thread that runs the script handles; None where it handles nothing."""
    for line in _main_thread(text):
        if found := _HANDLING.match(line):
            return Handled(found[1], found[4], CallSite(rank, found[2], int(found[3])))
    return None


def has_other_threads(text: str) -> bool:
    """Whether more than one thread runs code of the script's own.

    Neither those of installed packages, as of a progress bar, nor those of our backend.
    """

    def runs_script(frames: Sequence[Frame]) -> bool:
        own = (one for one in frames if not one.of_package and "/steptime/backend/" not in one.file)
        return any(one.of_script for one in own)

    return sum(runs_script(_frames(lines)) for lines in _threads(text)) > 1


def _threads(text: str) -> list[list[str]]:
    """The lines of each thread."""
    threads: list[list[str]] = []
    for line in text.splitlines():
        if _THREAD.match(line):
            threads.append([])
        elif threads:
            threads[-1].append(line)
    return threads


def _main_thread(text: str) -> Sequence[str]:
    """The lines of the thread that runs the script, else of the first."""
    threads = _threads(text)
    running = [
        lines for lines in threads if [one.function for one in _frames(lines)][-1:] == ["<module>"]
    ]
    return next(iter(running or threads), [])


def _frames(lines: Sequence[str]) -> list[Frame]:
    found = map(_FRAME.match, lines)
    return [Frame(one[1], int(one[2]), one[3]) for one in found if one]


def script_place(text: str, rank: int) -> CallSite | None:
    """The innermost line of the script that a rank is in, and that of a package inside it.

    As for places of calls: the package's alone where none of the script is in its stack; None where
    neither is.
    """
    of_user = (frame for frame in main_frames(text) if frame.of_script)
    found = place_and_via(of_user, lambda frame: (frame.file, frame.function))
    if found is None:
        return None
    place, via = found
    return CallSite(rank, place.file, place.line, f"{via.file}:{via.line}" if via else "")


def in_torch(text: str) -> bool:
    """Whether the innermost frame of the thread that runs the script is PyTorch's, or ours."""
    frames = main_frames(text)
    return bool(frames) and (frames[0].of_torch or frames[0].of_recorder)


def communicates(text: str) -> bool:
    """Whether the script is in a call of torch.distributed."""
    for frame in main_frames(text):
        if frame.of_script:
            return False
        if "/torch/distributed/" in frame.file:
            return True
    return False


def waits_for_typing(text: str) -> bool:
    """Whether the script is in a debugger's prompt, or at a line that calls ``input``."""
    frames = main_frames(text)[:8]
    if any(frame.file.endswith(_DEBUGGERS) for frame in frames):
        return True
    return any("input(" in linecache.getline(one.file, one.line) for one in frames[:1])


def waits_for_lock(text: str) -> bool:
    """Whether the script waits for the lock of a file, as of the build of an extension."""
    return any(frame.file.endswith(_LOCKS) for frame in main_frames(text)[:2])


def waits_for_loader(text: str) -> bool:
    """Whether the script waits for the workers of a DataLoader."""
    return any(
        frame.file.endswith("/torch/utils/data/dataloader.py") for frame in main_frames(text)
    )
