"""Memory by the gigabyte, for one test at a time, however many run beside one another."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steptime import host_memory


@contextmanager
def gigabytes(number: int) -> Iterator[None]:
    """Wait until no other test of the session takes so much; skip where there is less than that."""
    with Path(os.environ["STEPTIME_TEST_SESSION"], "gigabytes").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if host_memory.available_bytes() < number << 30:
            pytest.skip(f"needs {number} GiB of memory")
        yield
