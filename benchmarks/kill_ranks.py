"""Kill one of three ranks with SIGKILL, at random moments: the others must raise, and end.

    python benchmarks/kill_ranks.py [--times 20] [--timeout 4] [--seed 0] [--keep FILE] [--words]

Twenty times in each of: steps under DDP and under FSDP2, a ring of messages, collectives of tensors
in the arena, the making and destroying of groups; on steptime, and on gloo, which has no arena and
takes ordinary tensors. Which rank dies and when is drawn from the seed, the same for both; rank 0
serves the store. Told are the seconds from the kill to the exception and to the end of the process,
of the slower of the two others: median and maximum. The bar: every other rank raises and ends of
itself, with exit code 1, within the timeout plus 5 s; and afterwards no process is left.

``--keep`` writes what became of each kill to a file, which the next call with it does not do again.
``--words`` shows what the others were told.
"""

import argparse
import json
import math
import os
import random
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import product
from pathlib import Path
from statistics import median
from typing import TypeAlias

from failing_ranks import Ending, Host, Order, endings, host

RANKS = (0, 1, 2)
BACKENDS = ("steptime", "gloo")
KILLED = ("ddp", "fsdp2", "messages", "arena", "groups")
END_S = 5.0
MARK = "STEPTIME_KILL_RANKS"

Others: TypeAlias = Sequence[Ending]
"""How the ranks ended that were not killed."""


def kill(
    at: Host, case: str, backend: str, timeout_s: float, killed: int, after_s: float
) -> Others:
    """Kill a rank ``after_s`` after all were ready."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as held:  # others are given other ports
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        store = f"tcp://127.0.0.1:{held.getsockname()[1]}"
        at.order(Order(case, backend, RANKS, len(RANKS), store, timeout_s, killed, after_s))
        events = list(at.events())
    moments = [event["at"] for event in events if event["event"] == "killed"]
    assert moments, f"{case} on {backend}: a rank ended before any was killed: {events}"
    return endings([rank for rank in RANKS if rank != killed], events, moments[0])


def row(case: str, backend: str, kills: Sequence[Others], limit_s: float) -> str:
    """A row of the table: how many ended well, and the slower of the others."""
    good = sum(well(others, limit_s) for others in kills)
    columns = []
    for of in ("raised_s", "ended_s"):
        times = [max(getattr(one, of) or math.inf for one in others) for others in kills]
        columns.append(f"{median(times):9.2f} {max(times):8.2f}")
    return f"{case:9} {backend:9} {good:3} of {len(kills):3} {columns[0]}   {columns[1]}"


def well(others: Others, limit_s: float) -> bool:
    return all(one.within(limit_s, limit_s) and one.code == 1 for one in others)


def kept(path: Path | None) -> dict[str, Others]:
    """The kills that a file holds, by what was asked for."""
    found = {}
    for line in path.read_text().splitlines() if path and path.exists() else ():
        key, others = json.loads(line)
        found[key] = [Ending(**one) for one in others]
    return found


def left(mark: str) -> list[str]:
    """The processes that still run of those that have this mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{MARK}={mark}\0".encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--timeout", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", default=",".join(KILLED))
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--words", action="store_true")
    asked = parser.parse_args()
    cases, backends = asked.cases.split(","), asked.backends.split(",")
    limit_s, mark = asked.timeout + END_S, str(os.getpid())
    known, kills = kept(asked.keep), {}
    training = not {"ddp", "fsdp2"}.isdisjoint(cases)
    with host(environ=os.environ | {MARK: mark}, training=training) as at:
        for case, number, backend in product(cases, range(asked.times), backends):
            drawn = random.Random(f"{asked.seed}, {case}, {number}")  # noqa: S311
            killed, after_s = drawn.choice(RANKS), drawn.uniform(0, 0.5)
            key = f"{asked.seed}, {asked.timeout:g} s, {case}, {backend}, {number}"
            others = known.get(key) or kill(at, case, backend, asked.timeout, killed, after_s)
            if asked.keep and key not in known:
                with asked.keep.open("a") as file:
                    print(json.dumps([key, [asdict(one) for one in others]]), file=file)
            kills.setdefault((case, backend), []).append(others)
            for one in others if asked.words else ():
                print(f"{key}: killed {killed}, {one}", flush=True)
    print(
        f"{len(RANKS)} ranks, timeout {asked.timeout:g} s; seconds from the kill, the slower rank"
    )
    print("                   within      raised   raised      ended    ended")
    print(f"case      backend  {limit_s:5g} s      median      max     median      max")
    for (case, backend), found in kills.items():
        print(row(case, backend, found, limit_s))
    remains = left(mark)
    print(f"left behind: {', '.join(remains) or 'no process'}")
    short = [
        others
        for (_, backend), found in kills.items()
        for others in found
        if backend == "steptime" and not well(others, limit_s)
    ]
    return 1 if short or remains else 0


if __name__ == "__main__":
    sys.exit(main())
