"""Segment: shared memory without a name, which disappears with the last process that maps it.

A segment is an anonymous file (memfd_create(2)), which another process of the same user, and no
other, opens through ``/proc/<pid>/fd``. Its size is sealed: whoever cut it off would end every
process that maps it. Only touched pages take memory.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import weakref
from pathlib import Path

from steptime import host_memory
from steptime.errors import SteptimeError
from steptime.units import format_bytes

_NAME = "steptime"
_SEALS = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
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
    """The file descriptor of a new segment of ``size`` bytes, all zero.

    Raises SteptimeError when a limit on files forbids it.
    """
    fd = None
    try:
        fd = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.fchmod(fd, 0o600)
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except OSError as error:
        if fd is not None:
            os.close(fd)
        raise SteptimeError(
            f"{format_bytes(size)} of shared memory cannot be made ({error.strerror}): raise the "
            "limits on the size of files and on open files (ulimit -f, ulimit -n)"
        ) from error
    return fd


def make(size: int) -> tuple[int, ctypes.Array[ctypes.c_ubyte]]:
    """A new segment of ``size`` bytes, all zero: its descriptor, and it mapped.

    Raises SteptimeError when a limit of this process forbids it.
    """
    fd = create(size)
    try:
        return fd, attach(fd, size)
    except SteptimeError:
        os.close(fd)
        raise


def map_of(pid: int, fd: int, size: int) -> ctypes.Array[ctypes.c_ubyte] | None:
    """Map the segment behind ``fd`` of process ``pid``; None where it cannot be opened.

    Raises SteptimeError when the address space is used up.
    """
    opened = open_of(pid, fd)
    if opened is None:
        return None
    try:
        return attach(opened, size)
    finally:
        os.close(opened)


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
            f"{format_bytes(size)} of shared memory cannot be mapped ({reason}): "
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
        raise SteptimeError(f"{format_bytes(size)} of shared memory cannot be had ({reason})")


def give_back(address: int, size: int) -> None:
    """Return the memory of these pages to the system, whoever maps them: they are zero again."""
    _libc.madvise(address, size, _REMOVE)
