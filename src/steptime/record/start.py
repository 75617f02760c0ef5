"""The start of a recording: in this process now, or in one that is yet to import torch.

``STEPTIME_RECORD`` names the folder. A process in whose environment it stands records itself from
the moment it has imported torch; so do its children. What starts that is ``steptime.pth``, which is
installed beside the package; where steptime is not installed, the folder ``startup`` on PYTHONPATH.
"""

import atexit
import multiprocessing.util
import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from steptime.record.imports import AfterImport

if TYPE_CHECKING:
    from steptime.record.events import Log

VARIABLE = "STEPTIME_RECORD"
PATH_VARIABLE = "STEPTIME_RECORD_PATH"
PROFILE_VARIABLE = "STEPTIME_RECORD_PROFILE"
"""The steps that torch.profiler is to see, as ``3:5``."""

DRY_VARIABLE = "STEPTIME_RECORD_DRY"
"""Set where the process is one rank of a job that is not there."""
OBSERVERS_VARIABLE = "STEPTIME_OBSERVERS"
"""Names the module that observes a recorded process, if one does: it has ``install``."""

FOLDER = "record"
"""Where in a run's folder the logs of its processes are."""

STARTUP = Path(__file__).parent / "startup"


def recording_environment(
    environ: Mapping[str, str], folder: Path, profile: str | None = None
) -> dict[str, str]:
    """``environ`` for a command whose Python processes are to record themselves into a folder.

    ``profile``: the steps that torch.profiler is to see, as ``3:5``.
    """
    path = [str(STARTUP), *filter(None, [environ.get("PYTHONPATH")])]
    return {
        **environ,
        VARIABLE: str(folder.resolve()),
        **({PROFILE_VARIABLE: profile} if profile else {}),
        PATH_VARIABLE: str(Path(__file__).parents[2]),
        "PYTHONPATH": os.pathsep.join(path),
    }


def _end_with_child(_: type["_Recording"]) -> None:
    multiprocessing.util.Finalize(None, finish, exitpriority=-1)


class _Recording(NamedTuple):
    """The log of this process, what ends its recording, and what a forked child does first.

    ``end_step``: what a script calls at the end of its steps.
    """

    log: "Log"
    stop: Callable[[], None]
    in_child: Callable[[], None]
    end_step: Callable[[], None]


_recording: list[_Recording] = []
_at_exit: list[Callable[[], None]] = []


def start(folder: Path) -> None:
    """Record this process from now on, which has imported torch; twice is once.

    In a forked child the recording of its parent would write where the parent writes: it begins
    one of its own. Raises OSError where the folder cannot be written.
    """
    if _recording:
        return
    from steptime.record import c10d, exits, hooks
    from steptime.record.calls import Calls
    from steptime.record.device import DeviceMarks
    from steptime.record.events import Kind, Log

    log = Log(folder / FOLDER)
    calls = Calls(log)
    marks = DeviceMarks(calls)
    calls.meets_group = marks.look
    parts = hooks.Parts(log, marks)
    by_script: list[bool] = []
    at_end = _at_end_of_steps(log)

    def optimizer_stepped() -> None:
        if not by_script:
            at_end()

    def end_step() -> None:
        by_script[:] = [True]
        parts.end(parts.begin(), Kind.STEP)
        at_end()

    ends = [hooks.install(parts, optimizer_stepped), c10d.install(calls), exits.install(log)]
    if observers := os.environ.get(OBSERVERS_VARIABLE):
        ends.insert(0, import_module(observers).install(log, calls))

    def stop() -> None:
        for end in ends:
            end()
        marks.close()
        calls.close()
        log.note(end=True, at_ns=time.perf_counter_ns())

    def in_child() -> None:
        log.begin(forked_from=os.getppid())
        marks.begin()
        calls.attend()

    if not _at_exit:
        _at_exit.append(atexit.register(finish))
        os.register_at_fork(after_in_child=_in_child)
        # A child that multiprocessing forks leaves without what atexit knows; of one that it
        # spawned the exception that ends it is gone by then.
        multiprocessing.util.register_after_fork(_Recording, _end_with_child)
        _end_with_child(_Recording)
    _recording.append(_Recording(log, stop, in_child, end_step))


def _at_end_of_steps(log: "Log") -> Callable[[], None]:
    steps = os.environ.get(PROFILE_VARIABLE)
    if steps is None:
        return lambda: None
    from steptime.record.profile import ProfiledSteps, at_end_of_steps

    return at_end_of_steps(log, ProfiledSteps.parse(steps))


def finish() -> None:
    """End the recording of this process, if there is one."""
    while _recording:
        _recording.pop().stop()


def end_step() -> None:
    """Say that a step of the script ends here; nothing where nobody records."""
    for one in _recording:
        one.end_step()


def _in_child() -> None:
    """A forked child writes into files of its own, and has none of its parent's threads."""
    for one in _recording:
        one.in_child()


def start_from_environment() -> None:
    """Record this process, whose environment says where, once it has imported torch; twice is once.

    A folder that cannot be written is said on stderr, and the script runs as it would have.
    """
    if any(isinstance(one, AfterImport) and one.name == "torch" for one in sys.meta_path):
        return
    # A child of this process may have another working directory.
    os.environ[VARIABLE] = os.path.abspath(os.environ[VARIABLE])  # noqa: PTH100 (pathlib is slow)
    if "torch" in sys.modules:
        _start_or_say()
    else:
        sys.meta_path.insert(0, AfterImport("torch", _start_or_say))


def _start_or_say() -> None:
    folder = os.environ[VARIABLE]
    if DRY_VARIABLE in os.environ:
        from steptime.record import dry

        dry.install()
    try:
        start(Path(folder))
    except OSError as error:
        print(f"steptime records nothing: {folder}: {error.strerror}", file=sys.stderr)
