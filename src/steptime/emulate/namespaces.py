"""Namespaces: making them, entering those of a host, mounting within them (Linux alone)."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which

from steptime.errors import SteptimeError, UsageError

_KINDS = {"net": 0x40000000, "uts": 0x04000000, "ipc": 0x08000000, "mnt": 0x00020000}
"""What a host has of its own, and the flags of clone(2). Its IPC namespace is what keeps MPI's UCX
from taking two hosts for one; its mount namespace gives it its own /dev/shm."""

_MS_BIND = 4096
_PRIVATE = ("unshare", "--net", "--mount", "--pid", "--uts", "--ipc")
_KEPT = ("--fork", "--kill-child", "--mount-proc")
_DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL")


def isolated(command: Sequence[str]) -> list[str]:
    """``command`` as the first process of namespaces that end with it, and it with its parent.

    Whatever kills this process, kill -9 included, leaves no process, interface or namespace. An
    ordinary user gets a user namespace, in which it is root. Raises UsageError where this machine
    or user may have none.
    """
    if not sys.platform.startswith("linux"):
        raise UsageError("emulate needs the namespaces of Linux: run it on a Linux machine")
    for tool in ("unshare", "setpriv"):
        if which(tool) is None:
            raise UsageError(f"emulate needs {tool}, of util-linux: install that package")
    mine = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    made = [*_DIES_WITH_US, *_PRIVATE, *mine, *_KEPT]
    tried = subprocess.run([*made, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        why = tried.stderr.strip().splitlines()
        raise UsageError(
            f"this machine gives no namespaces ({why[-1] if why else 'unshare failed'}): run as "
            "root, or let users make them (sysctl kernel.unprivileged_userns_clone=1, "
            "kernel.apparmor_restrict_unprivileged_userns=0; in a container: --privileged)"
        )
    return [*made, *command]


def new_host(name: str, machine_id: str, tcp: Mapping[str, str]) -> int:
    """Start the process that holds a host's namespaces; its number. It ends with this one.

    The host has this name, a machine id and boot id of its own, and an empty /dev/shm. ``tcp`` is
    what files of /proc/sys/net/ipv4 are set to, as far as its kernel has them.
    """
    ready, told = os.pipe()
    number = os.fork()
    if number:
        os.close(told)
        said = os.read(ready, 4096).decode()
        os.close(ready)
        if said != "ready":
            raise SteptimeError(f"cannot make the host {name}: {said or 'its process died'}")
        return number
    try:
        _checked(_libc().unshare(sum(_KINDS.values())))
        socket.sethostname(name)
        _own_files(machine_id)
        for setting, text in tcp.items():
            file = Path("/proc/sys/net/ipv4", setting)
            if file.exists():
                file.write_text(text)
        os.write(told, b"ready")
        os.close(told)
        for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(stop, signal.SIG_IGN)
        while True:
            signal.pause()
    except BaseException as error:
        os.write(told, str(error).encode() or b"?")
    finally:
        os._exit(1)


def enter(process: int) -> None:
    """Become a process of the host whose namespaces ``process`` holds; the folder stays the same.

    Raises OSError.
    """
    here = Path.cwd()
    opened = {
        kind: os.open(f"/proc/{process}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in _KINDS
    }
    for kind, namespace in opened.items():
        _checked(_libc().setns(namespace, _KINDS[kind]))
        os.close(namespace)
    os.chdir(here)


def mount_memory(folder: str) -> None:
    """An empty file system in memory, seen in this mount namespace alone, over ``folder``."""
    _mount(b"tmpfs", folder, b"tmpfs", 0)


def bind(source: Path, over: str) -> None:
    """Show ``source`` in the place of the file ``over``, in this mount namespace alone."""
    _mount(bytes(source), over, None, _MS_BIND)


def _own_files(machine_id: str) -> None:
    """What programs ask whether two processes are on one machine, differing between hosts."""
    shared = "/dev/shm"  # noqa: S108  (the mount point)
    mount_memory(shared)
    for name, text in (
        ("/etc/machine-id", machine_id),
        (
            "/proc/sys/kernel/random/boot_id",
            "-".join(machine_id[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))),
        ),
    ):
        if Path(name).exists():
            file = Path(shared, Path(name).name)
            file.write_text(f"{text}\n")
            bind(file, name)
    mount_memory(shared)  # over the first, whose files stay where they are bound


def _mount(source: bytes, target: str, kind: bytes | None, flags: int) -> None:
    _checked(_libc().mount(source, target.encode(), kind, flags, None))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
