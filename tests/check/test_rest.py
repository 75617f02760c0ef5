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
