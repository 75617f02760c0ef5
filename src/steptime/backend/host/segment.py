"""Segment: shared memory without a name, which disappears with the last process that maps it.

A segment is an anonymous file (memfd_create(2)), which another process of the same user opens
through ``/proc/<pid>/fd``. Only touched pages take memory.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from pathlib import Path

from steptime import host_memory
from steptime.errors import SteptimeError

_NAME = "steptime"
_POPULATE_WRITE = 23  # madvise(2), since Linux 5.14
_REMOVE = 9

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def require_memory(size: int) -> None:
    """Raise SteptimeError when this process may not take so many bytes for a shared tensor."""
    remedy = "give the host or its container more memory"
    host_memory.require_memory(size, "a shared tensor", remedy, SteptimeError)


def create(size: int) -> int:
    """The file descriptor of a new segment of ``size`` bytes, all zero."""
    fd = os.memfd_create(_NAME)
    os.ftruncate(fd, size)
    return fd


def open_of(pid: int, fd: int) -> int | None:
    """Open the segment behind ``fd`` of process ``pid``; None where that is not possible."""
    path = Path(f"/proc/{pid}/fd/{fd}")
    try:
        # What is not a segment may be a pipe or a device, where opening alone has effects.
        if not str(path.readlink()).startswith(f"/memfd:{_NAME}"):
            return None
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None


def attach(fd: int, size: int) -> ctypes.Array[ctypes.c_ubyte]:
    """Map the ``size`` bytes of a segment, for as long as anything refers to them.

    ``fd`` may be closed afterwards. Raises SteptimeError when the address space is used up.
    """
    address = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        reason = os.strerror(ctypes.get_errno())
        raise SteptimeError(
            f"{size} bytes of shared memory cannot be mapped ({reason}): "
            "raise the limit on address space (ulimit -v)"
        )
    memory = (ctypes.c_ubyte * size).from_address(address)
    # Not at exit: threads that still run then would find their memory gone.
    weakref.finalize(memory, _libc.munmap, address, size).atexit = False
    return memory


def populate(address: int, size: int) -> None:
    """Take the memory of these pages now: a lack of it is then an error and no SIGBUS later.

    Raises SteptimeError when there is not enough. Does nothing on kernels that cannot do this.
    """
    failed = _libc.madvise(address, size, _POPULATE_WRITE)
    if failed and ctypes.get_errno() != 22:  # EINVAL
        reason = os.strerror(ctypes.get_errno())
        raise SteptimeError(f"{size} bytes of shared memory cannot be had ({reason})")


def give_back(address: int, size: int) -> None:
    """Return the memory of these pages to the system, whoever maps them: they are zero again."""
    _libc.madvise(address, size, _REMOVE)
