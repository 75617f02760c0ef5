"""Whether a process does nothing, and those that it has started do nothing either."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steptime.check.processes import Process

_LOOKS_S, _GIVES_UP_S = 9.0, 120.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("started", "rests"), [("time.sleep(600)", True), ("0\nwhile 1: 0", False)]
)
def test_a_process_rests_if_what_it_started_does(started: str, rests: bool, tmp_path: Path) -> None:
    code = f"import time\n{started}"
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
    with subprocess.Popen([sys.executable, "-c", starts], start_new_session=True) as running:
        try:
            assert _rests(Process(tmp_path / "events", running.pid, here=True)) is rests
        finally:
            os.killpg(running.pid, signal.SIGKILL)


def _unmoved(process: Process, at: range) -> list[int]:
    """The seconds at which it has sent nothing for a while, looked at once in each."""
    seen = []
    for now in at:
        process.look(100.0 + now)
        seen += [now] * process.unmoved
    return seen


def test_who_has_sent_nothing_for_ten_seconds_is_unmoved_and_no_longer_when_it_does(
    tmp_path: Path,
) -> None:
    (tmp_path / "events").touch()
    process = Process(tmp_path / "events", os.getpid(), here=True)
    assert _unmoved(process, range(13)) == [10, 11, 12]
    with Path(os.devnull).open("wb", buffering=0) as sends:
        sends.write(bytes(2**17))
    assert _unmoved(process, range(13, 25)) == [23, 24]


def test_nobody_knows_what_a_job_did_while_its_watch_was_paused(tmp_path: Path) -> None:
    (tmp_path / "events").touch()
    process = Process(tmp_path / "events", os.getpid(), here=True)
    assert _unmoved(process, range(8)) == []
    assert _unmoved(process, range(60, 71)) == [70]


def _rests(process: Process) -> bool:
    """Whether it ever does; on a busy machine it may take long to start and use a processor."""
    begun, idle_s = time.monotonic(), 0.0
    while idle_s < _LOOKS_S and time.monotonic() - begun < _GIVES_UP_S:
        time.sleep(0.25)
        process.look(time.monotonic())
        if process.rests:
            return True
        idle_s += 0.25 * process.idle
    return False
