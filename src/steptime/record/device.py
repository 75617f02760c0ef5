"""When a GPU comes to what a script asks of it: events of CUDA beside the recording's own clock.

A script on a GPU runs ahead of it: by the clock of the script a backward is over once its kernels
are queued. So an event of CUDA is recorded on the script's stream wherever the script does what is
written down: as it begins a call or a wait, comes back from one, begins or ends a part of its
step. Once the GPU has passed an event, its time goes into a file beside those of the log.

Nothing here keeps a Work or a tensor, touches a stream that is captured into a graph, or waits for
the GPU, but for the fifth of a millisecond in a second in which its clock is read, and at the end.
Of a process that uses no GPU, no file is made.
"""

import ctypes
import struct
import threading
import time
from collections import deque
from io import RawIOBase
from typing import Any, NamedTuple, Protocol

import torch

from steptime.record.calls import Calls
from steptime.record.calls import Marks as Marking
from steptime.record.rows import in_c, recorder
from steptime.world import compat

_ORIGIN_EVERY_NS = 1_000_000_000
"""The GPU's clock is read as often: it has half a microsecond's resolution for so long, no more."""

_ORIGIN_WITHIN_S = 200e-6
_LATE_AT_MOST_S = 2.0
_PACK = struct.Struct("<IBQq")
_LOOKED_AT_ONCE = 32
"""The GPU is not asked of fewer marks: each question takes half a microsecond."""

_WRITTEN_AT_ONCE = 64 * _PACK.size
_FUNCTIONS = (
    "GetDevice",
    "StreamIsCapturing",
    "StreamCreateWithFlags",
    "EventCreateWithFlags",
    "EventRecord",
    "EventQuery",
    "EventElapsedTime",
    "EventDestroy",
    "StreamDestroy",
    "GetLastError",
)
"""Of CUDA's runtime, in the order in which marks.c has them."""

_clock = time.perf_counter_ns


class Mark(NamedTuple):
    """An event of CUDA that was recorded on a stream of a device."""

    event: Any
    stream: int
    device: int


class _Origin(NamedTuple):
    """An event of CUDA, when it was by the clock of the script, and whether that is over surely."""

    event: Any
    at_ns: int
    passed: bool


class Marks(Marking, Protocol):
    """Marks of this process, which it writes into a file; from any thread."""

    def drain(self) -> int:
        """Note what the GPU has passed; how many marks it has to pass yet."""

    def close(self) -> None:
        """Write what is noted, and let go of all events."""


class DeviceMarks:
    """The marks of this process, which its calls have from the moment at which it uses a GPU."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        """Begin with no marks, as a forked child must, which has no GPU."""
        self._marks: Marks | None = None
        self._file: Any = None
        self._calls.marks = None

    def look(self) -> bool:
        """Begin to mark where the process uses a GPU by now; whether it does."""
        if self._marks:
            return True
        if not torch.cuda.is_initialized():
            return False
        with self._lock:
            if not self._marks:
                self._file = self._calls.log.marks()
                self._marks = self._calls.marks = _marks(self._file)
        return True

    def take(self) -> Any:
        """Mark where this thread is on its stream; None without a GPU, or within a graph."""
        return self._marks.take() if self.look() and self._marks else None

    def keep(self, number: int, time_of: int, mark: Any) -> None:
        """Write a mark down, once the GPU has passed it, as that of a time of an event."""
        if self._marks:
            self._marks.keep(number, time_of, mark)

    def close(self) -> None:
        """Write down what the GPU passes within a moment; the rest is lost."""
        if not self._marks:
            return
        deadline = time.monotonic() + _LATE_AT_MOST_S
        while self._marks.drain() and time.monotonic() < deadline:
            time.sleep(1e-3)
        self._calls.marks = None
        self._marks.close()
        self._marks = None
        self._file.close()


def _marks(file: RawIOBase) -> Marks:
    """Marks in C where the recorder and CUDA's runtime are there, in Python else."""
    functions = _cuda() if in_c() else None
    if functions is None:
        return PythonMarks(file)
    stream = compat.stream_of
    return recorder.Marks(file=file.fileno(), current_stream=stream, functions=functions)


def _cuda() -> list[int] | None:
    """Where those functions are that torch uses itself; None where it is built for no CUDA."""
    try:
        library = ctypes.CDLL(f"libcudart.so.{str(torch.version.cuda).partition('.')[0]}")
        each = [getattr(library, f"cuda{name}") for name in _FUNCTIONS]
    except (OSError, AttributeError):
        return None
    return [ctypes.cast(one, ctypes.c_void_p).value or 0 for one in each]


class PythonMarks:
    """Marks in Python; ``recorder.Marks`` is the same in C."""

    def __init__(self, file: RawIOBase) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._pending: deque[tuple[int, int, Mark]] = deque()
        self._free: dict[int, list[Any]] = {}
        self._streams: dict[tuple[int, int], torch.cuda.Stream] = {}
        self._origins: dict[int, _Origin] = {}
        self._sides: dict[int, Any] = {}
        self._passed = bytearray()

    def take(self) -> Mark | None:
        """Mark where this thread is on its stream; None within a graph."""
        if torch.cuda.is_current_stream_capturing():
            return None
        device, number = compat.current_stream()
        stream = self._streams.get((device, number))
        if stream is None:
            stream = self._streams[device, number] = torch.cuda.current_stream()
        if device not in self._origins:
            self._find_origin(device)
        free = self._free.setdefault(device, [])
        try:
            event = free.pop()
        except IndexError:
            event = torch.cuda.Event(enable_timing=True)
        try:
            event.record(stream)
        except RuntimeError:  # a kernel failed, of which the script hears by a call of its own
            return None
        return Mark(event, number, device)

    def keep(self, number: int, time_of: int, mark: Mark | None) -> None:
        """Note a mark, once the GPU has passed it, as that of a time of an event."""
        if mark is not None:
            self._pending.append((number, time_of, mark))
            if len(self._pending) >= _LOOKED_AT_ONCE:
                self.drain()

    def drain(self) -> int:
        """Note the marks that the GPU has passed, in the order in which they were made."""
        if not self._lock.acquire(blocking=False):
            return len(self._pending)
        try:
            while self._pending and self._passed_by(self._pending[0][2]):
                self._note(*self._pending.popleft())
            if len(self._passed) >= _WRITTEN_AT_ONCE:
                self._write()
        except RuntimeError:  # likewise
            self._pending.clear()
        finally:
            self._lock.release()
        return len(self._pending)

    def close(self) -> None:
        """Write what is noted."""
        self._write()

    def _passed_by(self, mark: Mark) -> bool:
        origin = self._origins[mark.device]
        return bool(mark.event.query() and (origin.passed or origin.event.query()))

    def _note(self, number: int, time_of: int, mark: Mark) -> None:
        """Note when the GPU passed a mark."""
        origin = self._origins[mark.device]
        past_ns = round(1e6 * origin.event.elapsed_time(mark.event))
        at_ns = origin.at_ns + past_ns
        self._passed += _PACK.pack(number, time_of, mark.stream, at_ns)
        if past_ns > _ORIGIN_EVERY_NS and not self._find_origin(mark.device):
            self._origins[mark.device] = _Origin(mark.event, at_ns, passed=True)
        else:
            self._free[mark.device].append(mark.event)

    def _write(self) -> None:
        self._file.write(self._passed)
        self._passed.clear()

    def _find_origin(self, device: int) -> bool:
        """Read the GPU's clock beside the script's: by an event on a stream with nothing else.

        False where the GPU does not come to that at once, as one whose streams all share a queue.
        """
        side = self._sides.get(device)
        if side is None:
            side = self._sides[device] = torch.cuda.Stream(device)
        event = torch.cuda.Event(enable_timing=True)
        event.record(side)
        deadline = time.monotonic() + _ORIGIN_WITHIN_S
        done = bool(event.query())
        while not done and time.monotonic() < deadline:
            done = bool(event.query())
        if done or device not in self._origins:
            self._origins[device] = _Origin(event, _clock(), passed=done)
        return done
