"""Cut the link between two hosts at random moments: every rank must raise, and end.

    python benchmarks/partition.py [--cuts 20] [--timeout 4] [--seed 0] [--backend NAME] [--words]

Two hosts of two ranks each, here network and process namespaces joined by a veth pair: their ranks
share no memory, and reach each other by TCP alone. The first host, *near*, has the rank that serves
the store. All call all_reduce and barrier in turn, until the link is taken down. Told are the
seconds from there to the exception and to the end of the process, of the slowest rank of each host.
The bar: every rank raises within the timeout plus 2 s, and ends within the timeout plus 5 s. Needs
no root where users may make namespaces. ``--words`` shows what each rank is told.
"""

import argparse
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from failing_ranks import Ending, Host, Order, endings, host

HOSTS = ((0, 1), (2, 3))
ALONE = ("unshare", "--user", "--map-root-user", "--net")
PROCESSES = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
RAISE_S, END_S = 2.0, 5.0


def ip(*words: str, at: Sequence[str] = ()) -> None:
    subprocess.run([*at, "ip", *words], check=True)


@contextmanager
def two_hosts(limit_s: float = 60.0) -> Iterator[list[Host]]:
    """Two hosts on 10.7.0.1 and 10.7.0.2, joined by the link ``near``; within a namespace."""
    holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)  # ends with us
    there = ("nsenter", f"--net=/proc/{holder.pid}/ns/net")
    try:
        deadline = time.monotonic() + limit_s
        here, theirs = (Path("/proc", str(of), "ns/net") for of in ("self", holder.pid))
        while theirs.readlink() == here.readlink() and time.monotonic() < deadline:
            time.sleep(0.01)
        ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(holder.pid))
        for number, (name, at) in enumerate((("near", ()), ("far", there)), 1):
            ip("addr", "add", f"10.7.0.{number}/24", "dev", name, at=at)
            ip("link", "set", "lo", "up", at=at)
            ip("link", "set", name, "up", at=at)
        interface = {"near": (), "far": there}
        environs = [os.environ | {"GLOO_SOCKET_IFNAME": name} for name in interface]
        with (
            host(*PROCESSES, environ=environs[0]) as near,
            host(*there, *PROCESSES, environ=environs[1]) as far,
        ):
            yield [near, far]
    finally:
        holder.communicate()


def cut(
    hosts: Sequence[Host], port: int, backend: str, timeout_s: float, after_s: float
) -> list[Ending] | None:
    """Start the ranks, cut the link ``after_s`` after all were ready, and see them to their end.

    None where some rank did not even join within the timeout, as on a machine that is very busy.
    """
    events: list[dict[str, Any]] = []
    ready = threading.Semaphore(0)

    def listen(to: Host) -> None:
        for event in to.events():
            events.append(event)
            if event["event"] in ("ready", "ended"):
                ready.release()

    listeners = [threading.Thread(target=listen, args=(each,)) for each in hosts]
    for each, ranks, thread in zip(hosts, HOSTS, listeners, strict=True):
        store = f"tcp://10.7.0.1:{port}"
        each.order(Order("collectives", backend, ranks, 4, store, timeout_s))
        thread.start()
    for _ in range(4):
        ready.acquire()
    time.sleep(after_s)
    ip("link", "set", "near", "down")
    at = time.monotonic()
    for thread in listeners:
        thread.join()
    ip("link", "set", "near", "up")
    if sum(event["event"] == "ready" for event in events) < 4:
        return None
    return endings(range(4), events, at)


def slowest(found: Sequence[float | None]) -> str:
    """The largest, in 10 columns; of a rank that hangs there is none."""
    times = [one for one in found if one is not None]
    return f"{max(times):8.2f} s" if len(times) == len(found) else "     hangs"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--timeout", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="steptime")
    parser.add_argument("--words", action="store_true")
    asked = parser.parse_args()
    if "STEPTIME_ALONE" not in os.environ:
        alone = os.environ | {"STEPTIME_ALONE": "1"}
        return subprocess.run(
            [*ALONE, sys.executable, *sys.argv], env=alone, check=False
        ).returncode
    moments = random.Random(asked.seed)  # noqa: S311
    good = 0
    print(
        f"{asked.backend}, timeout {asked.timeout:g} s; seconds from the cut, of the slowest rank"
    )
    print("cut   raised: near        far   ended: near        far")
    with two_hosts() as hosts:
        for number in range(asked.cuts):
            told, after_s, port = None, moments.uniform(0, 1.5), 20_000 + 10 * number
            while told is None:
                told, port = cut(hosts, port, asked.backend, asked.timeout, after_s), port + 1
            sides = [[told[rank] for rank in ranks] for ranks in HOSTS]
            raised = [slowest([one.raised_s for one in side]) for side in sides]
            ended = [slowest([one.ended_s for one in side]) for side in sides]
            print(
                f"{number + 1:3}   {raised[0]:>12} {raised[1]} {ended[0]:>13} {ended[1]}",
                flush=True,
            )
            good += all(one.within(asked.timeout + RAISE_S, asked.timeout + END_S) for one in told)
            for one in told if asked.words else ():
                print(f"      rank {one.rank}: {one.what}")
    bar = (
        f"raised within {asked.timeout + RAISE_S:g} s and ended within {asked.timeout + END_S:g} s"
    )
    print(f"{good} of {asked.cuts}: every rank {bar}")
    return 0 if good == asked.cuts else 1


if __name__ == "__main__":
    sys.exit(main())
