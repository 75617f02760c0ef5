"""What emulated clusters leave behind: nothing, however they end.

    python benchmarks/emulated_kills.py [--runs 50] [--seed 0]

Each run emulates some hosts, on which ranks send to one another without end. A third of them is
killed with -9 at a random moment, a third ended by SIGTERM, a third comes to its end. Afterwards no
process that was started has any thread left, and the machine has the interfaces, namespaces,
control groups, mounts and segments of shared memory that it had before.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "STEPTIME_EMULATED_KILLS"
LIMIT_S = 30.0
RANK = """
import os, socket, sys, threading, time
rank, size, until = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), time.time() + {seconds}
open(f"/dev/shm/rank{{rank}}", "wb").write(bytes(1 << 20))
server = socket.create_server(("", 6000 + rank))
server.settimeout(0.1)
hosts = os.environ["STEPTIME_HOSTS"].split(",")
def take():
    while True:
        try:
            came = server.accept()[0]
            while came.recv(1 << 16):
                pass
        except OSError:
            pass
threading.Thread(target=take, daemon=True).start()
while time.time() < until:
    try:
        other = (rank + 1) % size
        with socket.create_connection((hosts[other], 6000 + other), 1) as to:
            while time.time() < until:
                to.sendall(bytes(1 << 16))
    except OSError:
        time.sleep(0.01)
"""


def marked(value: str) -> Iterator[int]:
    """The processes whose environment has the mark."""
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            try:
                if f"{MARK}={value}".encode() in (process / "environ").read_bytes():
                    yield int(process.name)
            except OSError:
                continue


def kept() -> dict[str, frozenset[str]]:
    """What the machine has that outlives processes."""
    namespaces = subprocess.run(["lsns", "-n", "-o", "NS"], capture_output=True, text=True)
    return {
        "interfaces": frozenset(line.split(":")[0] for line in lines("/proc/net/dev")[2:]),
        "namespaces": frozenset(namespaces.stdout.split()),
        "mounts": frozenset(lines("/proc/self/mounts")),
        "segments": frozenset(str(path) for path in Path("/dev/shm").iterdir()),  # noqa: S108
        "groups": frozenset(str(path) for path in Path("/sys/fs/cgroup").glob("*/")),
        "files": frozenset(str(path) for path in Path(tempfile.gettempdir()).glob("*steptime*")),
    }


def lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def run(number: int, how: str, chance: random.Random) -> float:
    """One run; how long after its end its last process had gone, in seconds."""
    hosts, seconds = chance.randint(2, 6), chance.uniform(0.1, 1.5)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "steptime", "emulate", f"office-10gbe:hosts={hosts}"),
            *("--time-dilation", "200", "--quiet", "--"),
            *(sys.executable, "-c", RANK.format(seconds=seconds if how == "ends" else 600)),
        ],
        env=os.environ | {MARK: str(number)},
        stderr=subprocess.DEVNULL,
    )
    if how != "ends":
        time.sleep(chance.uniform(0, 2.5))
        process.send_signal(signal.SIGKILL if how == "killed" else signal.SIGTERM)
    process.wait(LIMIT_S * 10)
    ended = time.monotonic()
    while [*marked(str(number))]:
        if time.monotonic() - ended > LIMIT_S:
            raise SystemExit(f"run {number}, {how}: processes remain: {[*marked(str(number))]}")
        time.sleep(0.01)
    return time.monotonic() - ended


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)  # noqa: S311
    before, slowest = kept(), dict.fromkeys(("killed", "terminated", "ends"), 0.0)
    ways = [*slowest]
    for number in range(asked.runs):
        how = ways[number % len(ways)]
        slowest[how] = max(slowest[how], run(number, how, chance))
    print(f"{asked.runs} runs; the last process had gone after at most, in seconds:")
    print("  ".join(f"{how} {seconds:.2f}" for how, seconds in slowest.items()))
    after = kept()
    for what, had in before.items():
        left = sorted(after[what] - had)
        print(f"{what:<11} {'none more' if not left else ', '.join(left)}")
    if any(after[what] - had for what, had in before.items()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
