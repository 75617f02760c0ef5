"""Whether a process still lives: by its id and start, the dead that nobody awaited included."""

import os
import subprocess
import sys

from steptime.backend.host.process import Process, started


def test_a_process_lives_until_it_is_killed_whether_or_not_anybody_waits_for_it() -> None:
    own = Process(os.getpid(), started(os.getpid()) or 0)
    assert own.lives()
    assert not Process(own.pid, own.start + 1).lives(), "a later one with the same id"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        other = Process(child.pid, started(child.pid) or 0)
        assert other.start >= own.start
        assert other.lives()
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and still in the table
        assert not other.lives()
    assert started(other.pid) is None
    assert not other.lives()
