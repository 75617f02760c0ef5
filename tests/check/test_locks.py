"""Locks of files: who holds one, who waits for it, and which file it is, as the kernel knows it."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steptime.check.locks import LockWait, lock_waits

_WAITS = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX)"
_IN_FILELOCK = """Current thread 0x01 [python] (most recent call first):
  File "/x/site-packages/filelock/_api.py", line 9 in acquire
  File "/home/me/train.py", line 3 in <module>
"""
_HANGS_AFTER_S = 60.0


@contextmanager
def _waiting(lock: Path) -> Iterator[int]:
    """A process that waits for the lock of a file."""
    process = subprocess.Popen([sys.executable, "-c", _WAITS, str(lock)])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_who_waits_for_whom_and_for_which_file_is_known(tmp_path: Path) -> None:
    lock = tmp_path / "cache.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with _waiting(lock) as pid:
            until = time.monotonic() + _HANGS_AFTER_S
            ranks = {os.getpid(): 0, pid: 3}
            while not (found := lock_waits(ranks, {})) and time.monotonic() < until:
                time.sleep(0.02)
            assert found == [LockWait(3, 0, str(lock))]
            assert lock_waits({pid: 3}, {}) == []  # who holds it is no rank


def test_who_asks_for_a_lock_again_and_again_waits_for_its_only_holder(tmp_path: Path) -> None:
    lock = tmp_path / "cache.lock"
    ranks, stacks = {os.getpid(): 0, 1: 1}, {1: _IN_FILELOCK}
    assert lock_waits(ranks, stacks) == []
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert lock_waits(ranks, stacks) == [LockWait(1, 0, str(lock))]
        assert lock_waits(ranks, {0: _IN_FILELOCK}) == []  # of itself nobody waits
    with (tmp_path / "data.db").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert lock_waits(ranks, stacks) == []  # which may be kept for another reason
