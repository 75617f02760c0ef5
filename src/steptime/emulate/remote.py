"""Remote: running a command on another host of the emulated cluster that this process is on.

python -m steptime.emulate.remote HOST COMMAND…      as ssh does: the words go to a shell
"""

import fcntl
import os
import pty
import sys
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from steptime.emulate.namespaces import enter
from steptime.emulated import holders
from steptime.errors import UsageError, shell_status
from steptime.nearest import did_you_mean

_WITH_VALUE = ("-l", "-p", "-o", "-i", "-F", "-J", "-b", "-c", "-e", "-m", "-S", "-W", "-w")


def become(host: str, command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Go on as ``command`` on another host.

    Raises UsageError where this process is on no emulated cluster, the host is none of it, or there
    is no such program.
    """
    hosts = holders(environ)
    if not hosts:
        raise UsageError(
            "this is no host of an emulated cluster: start one with steptime emulate CLUSTER"
        )
    if host not in hosts:
        raise UsageError(f"there is no host {host!r}{did_you_mean(host, hosts)}")
    try:
        enter(hosts[host])
        os.execvpe(command[0], list(command), dict(environ))  # noqa: S606  (no shell is wanted)
    except OSError as error:
        raise UsageError(f"cannot run {command[0]} on {host}: {error.strerror}") from None


def on_terminal(host: str, environ: Mapping[str, str]) -> int:
    """A shell on a host, on a terminal of its own, until it ends; its exit status."""
    os.environ.clear()
    os.environ.update(environ)
    program = environ.get("SHELL", "/bin/sh")
    command = [sys.executable, "-m", __name__, host, f"exec {program}"]
    sized = False

    def read(terminal: int) -> bytes:
        nonlocal sized
        if not sized:  # what we are shown on is as large as what it is shown on
            with suppress(OSError):
                size = fcntl.ioctl(sys.stdin.fileno(), termios.TIOCGWINSZ, bytes(8))
                fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
            sized = True
        return os.read(terminal, 1 << 16)

    return shell_status(os.waitstatus_to_exitcode(pty.spawn(command, read)))


def main() -> NoReturn:
    """What stands in for ssh: its options mean nothing here."""
    words = sys.argv[1:]
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in _WITH_VALUE else 1 :]
    if not words:
        raise SystemExit("ssh: name a host")
    host, *command = words
    shell = os.environ.get("SHELL", "/bin/sh")
    try:
        become(host, ["/bin/sh", "-c", " ".join(command)] if command else [shell], os.environ)
    except UsageError as error:
        raise SystemExit(f"ssh: {error}") from None


if __name__ == "__main__":
    main()
