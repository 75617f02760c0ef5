"""Emulate: the outside of an emulated cluster: start it, pass signals on, hear what it found."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from types import FrameType
from typing import Any

import msgspec

from steptime.emulate.namespaces import isolated
from steptime.emulate.plan import Plan
from steptime.errors import SteptimeError, UsageError, error_of

_MOST = 1 << 20


@dataclass(frozen=True)
class Answer:
    """What a command on an emulated cluster left behind."""

    status: int
    """Its exit status; 128 plus the number of a signal that ended it."""

    bytes_by_link: Mapping[str, int]
    """What crossed each link, headers included."""

    ceiling: float
    """Bytes/s that this machine moved between two hosts before their links were shaped."""

    latency: float
    """Seconds that one byte took from host to host then: nothing is added to it."""

    faults: tuple[Mapping[str, Any], ...]
    """What happened to links, and when, by ``time.perf_counter()``."""


def emulate(plan: Plan) -> Answer:
    """Set the plan's hosts and links up, run its command there to its end, and take all down.

    Signals that end this process reach the command. Raises UsageError where this machine cannot do
    it, SteptimeError where the set-up fails.
    """
    if find_spec("pyroute2") is None:
        raise UsageError("emulate needs pyroute2: pip install 'steptime[emulate]'")
    ours, theirs = socket.socketpair()
    program = [sys.executable, "-m", "steptime.emulate.switch"]
    words = [msgspec.json.encode(plan).decode(), str(theirs.fileno())]
    with ours, _passed_on(ours):
        with theirs:
            process = subprocess.Popen(
                isolated([*program, *words]), pass_fds=[theirs.fileno()], env=dict(os.environ)
            )
        told = b"".join(iter(lambda: ours.recv(_MOST), b""))
        process.wait()
    if not told:
        raise SteptimeError(
            f"the emulated cluster ended by itself, with exit code {process.returncode}: was it "
            "killed?"
        )
    found = json.loads(told)
    if "error" in found:
        raise error_of(found["error"], found["exit_code"])
    return Answer(
        status=found["status"],
        bytes_by_link=found["bytes"],
        ceiling=found["ceiling"],
        latency=found["latency"],
        faults=tuple(found["faults"]),
    )


@contextmanager
def _passed_on(to: socket.socket) -> Iterator[None]:
    """Within the block signals that would end this process are told to the other end.

    Ctrl-C reaches the command by itself: it belongs to the terminal's job.
    """

    def tell(number: int, _: FrameType | None) -> None:
        with suppress(OSError):  # it may be over just now
            to.send(bytes([number]))

    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, tell),
        signal.SIGHUP: signal.signal(signal.SIGHUP, tell),
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
