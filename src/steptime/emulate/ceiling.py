"""Ceiling: what this machine can move between two of its namespaces, when nothing shapes it."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from statistics import median

from steptime.emulate.namespaces import enter
from steptime.emulate.plan import Plan
from steptime.errors import SteptimeError, UsageError
from steptime.units import format_rate

_FOR_S = 0.2
_TRIPS = 30
_PIECE = 1 << 18
_PORT = 29499
_SHARE = 0.6
"""The share of the ceiling that links may ask for: the program that runs on them needs the rest."""


def measured_ceiling(plan: Plan, holders: Mapping[str, int]) -> tuple[float, float]:
    """Bytes/s that TCP moves between two hosts, and seconds that a byte takes between them.

    While nothing shapes their links. Raises SteptimeError where they cannot reach one another.
    """
    first, second = plan.hosts[:2]
    told, result = os.pipe()
    receiver = os.fork()
    if receiver == 0:
        _leave(lambda: os.write(result, json.dumps(_received(holders[first.name])).encode()))
    sender = os.fork()
    if sender == 0:
        _leave(lambda: _send(holders[second.name], first.address))
    os.close(result)
    found = os.read(told, 256)
    os.close(told)
    for process in (sender, receiver):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    if not found:
        raise SteptimeError(f"{second.name} cannot reach {first.name}: does a firewall filter?")
    ceiling, latency = json.loads(found)
    return ceiling, latency


def check_ceiling(plan: Plan, ceiling: float) -> None:
    """Raise UsageError where the links together ask for more than the machine can move."""
    asked = sum(min(host.out.rate, host.back.rate) for host in plan.hosts)
    if asked > _SHARE * ceiling:
        factor = plan.dilation * asked / (_SHARE * ceiling)
        raise UsageError(
            f"the links of {len(plan.hosts)} hosts carry {format_rate(asked)} together, and this "
            f"machine moves {format_rate(ceiling)}, of which links may take {_SHARE:.0%}: "
            f"{_mend(factor)}"
        )


def _mend(factor: float) -> str:
    """What would do: the next dilation that is easily told, 1, 2 or 5 times a power of ten."""
    steps = (digit * 10.0**power for power in range(-3, 6) for digit in (1, 2, 5))
    told = next((step for step in steps if step >= factor), None)
    if told is None:
        return "no --time-dilation makes them slow enough, name another cluster"
    return f"give --time-dilation {told:g} or more"


def _leave(work: Callable[[], object]) -> None:
    """Do the work of a forked process, and end it."""
    try:
        work()
    finally:
        os._exit(0)


def _received(holder: int) -> tuple[float, float]:
    enter(holder)
    with socket.create_server(("", _PORT)) as server:
        server.settimeout(10)
        connection, _ = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        trips = []
        for _ in range(_TRIPS):
            begin = time.monotonic()
            connection.send(b"?")
            connection.recv(1)
            trips.append(time.monotonic() - begin)
        total, begin = 0, time.monotonic()
        while piece := connection.recv(_PIECE):
            total += len(piece)
        return total / (time.monotonic() - begin), median(trips) / 2


def _send(holder: int, address: str) -> None:
    enter(holder)
    deadline = time.monotonic() + 10
    while True:
        try:
            connection = socket.create_connection((address, _PORT), timeout=1)
            break
        except OSError:  # the port of a new bridge takes a moment
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(_TRIPS):
        connection.recv(1)
        connection.send(b"!")
    piece, end = bytes(_PIECE), time.monotonic() + _FOR_S
    while time.monotonic() < end:
        connection.sendall(piece)
    connection.close()
