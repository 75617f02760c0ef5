"""Blocking on a word of shared memory until another process changes it: futex(2) of Linux."""

from __future__ import annotations

import ctypes

_FUTEX = 202  # its number on x86-64, which alone Python serves without C
_WAIT, _WAKE = 0, 1
_ALL = 2**31 - 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


_syscall = ctypes.CDLL(None).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = [
    ctypes.c_long,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_uint32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_uint32,
]


def wait(address: int, value: int, seconds: float) -> None:
    """Block while the 32-bit word at ``address`` is ``value``, ``seconds`` at most.

    May return early; the caller looks again. Other threads of the process run meanwhile.
    """
    whole = int(seconds)
    limit = _Timespec(whole, int((seconds - whole) * 1e9))
    _syscall(_FUTEX, address, _WAIT, value & 0xFFFFFFFF, ctypes.addressof(limit), None, 0)


def wake(address: int) -> None:
    """Wake all that block on the word at ``address``."""
    _syscall(_FUTEX, address, _WAKE, _ALL, None, None, 0)
