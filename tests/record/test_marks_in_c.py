"""The marks of a GPU in C, by functions of CUDA's runtime that stand in for those of a GPU."""

import ctypes
from collections.abc import Iterator
from ctypes import CFUNCTYPE, POINTER, c_float, c_int, c_uint, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steptime.record.events import MARK, Time
from steptime.record.rows import recorder

pytestmark = pytest.mark.skipif(recorder is None, reason="the recorder is not built in C here")

NOT_READY, FAILED = 600, 719
STREAM = 77
DEFAULT = [c_void_p, c_uint]


class Gpu:
    """One whose streams come to an event ``late_ms`` after it is recorded, by its own clock.

    ``aside_ms``: so late is the stream on which its clock is read.
    """

    def __init__(self) -> None:
        self.now_ms = 1000.0
        self.late_ms = self.aside_ms = 0.0
        self.capturing = self.fails = False
        self.made: list[float] = []  # when each event is passed
        self.gone: list[int] = []
        self.error = 0  # what the script's next kernel would be told

    def functions(self) -> list[Any]:
        """What marks.c calls, in its order."""
        return [
            CFUNCTYPE(c_int, POINTER(c_int))(self._device),
            CFUNCTYPE(c_int, c_void_p, POINTER(c_int))(self._is_capturing),
            CFUNCTYPE(c_int, POINTER(c_void_p), c_uint)(self._create_stream),
            CFUNCTYPE(c_int, POINTER(c_void_p), c_uint)(self._create),
            CFUNCTYPE(c_int, c_void_p, c_void_p)(self._record),
            CFUNCTYPE(c_int, c_void_p)(self._query),
            CFUNCTYPE(c_int, POINTER(c_float), c_void_p, c_void_p)(self._elapsed),
            CFUNCTYPE(c_int, c_void_p)(self._destroy),
            CFUNCTYPE(c_int, c_void_p)(lambda _: 0),
            CFUNCTYPE(c_int)(self._forget),
        ]

    def _device(self, found: Any) -> int:
        found[0] = 0
        return 0

    def _is_capturing(self, _: int, found: Any) -> int:
        found[0] = int(self.capturing)
        return 0

    def _create_stream(self, found: Any, _: int) -> int:
        found[0] = 1
        return 0

    def _create(self, found: Any, _: int) -> int:
        self.made.append(0.0)
        found[0] = len(self.made)
        return 0

    def _record(self, event: int, stream: int) -> int:
        if self.fails:
            self.error = FAILED
            return FAILED
        late = self.late_ms if stream == STREAM else self.aside_ms
        self.made[event - 1] = self.now_ms + late
        return 0

    def _query(self, event: int) -> int:
        if self.made[event - 1] <= self.now_ms:
            return 0
        self.error = NOT_READY
        return NOT_READY

    def _elapsed(self, found: Any, begin: int, end: int) -> int:
        found[0] = self.made[end - 1] - self.made[begin - 1]
        return 0

    def _destroy(self, event: int) -> int:
        self.gone.append(event)
        return 0

    def _forget(self) -> int:
        self.error = 0
        return 0


@pytest.fixture
def gpu() -> Gpu:
    return Gpu()


class Marked:
    """The marks, and what they have written."""

    def __init__(self, gpu: Gpu, path: Path) -> None:
        self._functions = gpu.functions()  # they must live
        self._path = path
        self.file = path.open("wb", buffering=0)
        self.marks = recorder.Marks(
            file=self.file.fileno(),
            current_stream=lambda _: STREAM,
            functions=[ctypes.cast(one, c_void_p).value or 0 for one in self._functions],
        )

    def keep(self, number: int, time_of: Time = Time.ISSUED) -> None:
        """Take a mark, and keep it as of a time of an event."""
        self.marks.keep(number, time_of, self.marks.take())

    def read(self) -> Any:
        """The marks of the file, of dtype MARK, after the last."""
        self.marks.close()
        return np.frombuffer(self._path.read_bytes(), MARK)


@pytest.fixture
def marked(gpu: Gpu, tmp_path: Path) -> Iterator[Marked]:
    made = Marked(gpu, tmp_path / "marks")
    yield made
    made.file.close()


def test_a_mark_is_noted_once_the_gpu_has_passed_it(gpu: Gpu, marked: Marked) -> None:
    gpu.late_ms = 5.0
    for number in range(3):
        marked.keep(number)
        gpu.now_ms += 2.0
    assert marked.marks.drain() == 2  # the first was passed at 1005, and it is 1006
    assert gpu.error == 0

    gpu.now_ms += 10.0
    assert marked.marks.drain() == 0
    found = marked.read()
    assert found["event"].tolist() == [0, 1, 2]
    assert found["stream"].tolist() == [STREAM] * 3
    assert np.diff(found["at"]).tolist() == [2_000_000, 2_000_000]


def test_times_go_on_where_the_clock_cannot_be_read_anew(gpu: Gpu, marked: Marked) -> None:
    marked.keep(0)
    gpu.aside_ms = 1e6
    for number in range(1, 6):  # each more than a second after the last
        gpu.now_ms += 1500.0
        marked.keep(number, Time.ENDED)
        marked.marks.drain()
        assert gpu.error == 0

    found = marked.read()
    assert np.diff(found["at"]).tolist() == [1_500_000_000] * 5
    assert found["time"].tolist() == [Time.ISSUED] + [Time.ENDED] * 5


def test_events_are_used_again(gpu: Gpu, marked: Marked) -> None:
    for number in range(1000):
        marked.keep(number)
    assert marked.marks.drain() == 0

    assert marked.read()["event"].tolist() == list(range(1000))
    assert len(gpu.made) < 50
    assert sorted(gpu.gone) == list(range(1, len(gpu.made) + 1))


def test_who_comes_after_the_end_makes_no_mark(gpu: Gpu, marked: Marked) -> None:
    late = marked.marks.take()
    marked.marks.close()
    marked.marks.keep(0, Time.ISSUED, late)

    assert marked.marks.take() is None
    assert marked.marks.drain() == 0
    assert len(marked.read()) == 0
    assert len(gpu.gone) == len(gpu.made)


def test_as_many_wait_as_a_gpu_is_late(gpu: Gpu, marked: Marked) -> None:
    gpu.late_ms = 450.0
    for number in range(400):
        marked.keep(number)
        gpu.now_ms += 1.0
    assert marked.marks.drain() == 400

    gpu.now_ms += 450.0
    assert marked.marks.drain() == 0
    between = np.diff(marked.read()["at"]).tolist()
    assert between == pytest.approx([1_000_000] * 399, abs=20_000)


def test_no_mark_is_made_in_a_graph_or_after_a_failure(gpu: Gpu, marked: Marked) -> None:
    gpu.capturing = True
    assert marked.marks.take() is None

    gpu.capturing, gpu.fails = False, True
    assert marked.marks.take() is None
    assert gpu.error == 0

    gpu.fails = False
    marked.keep(7)
    marked.marks.keep(8, Time.ISSUED, None)
    assert marked.marks.drain() == 0
    assert marked.read()["event"].tolist() == [7]
