"""A host that goes while a job runs under check: is it named, with its ranks, within 5 seconds.

    python benchmarks/emulated_dead_host.py [--runs 10]

Two or three emulated hosts of one or two ranks call all_reduce again and again under
``steptime check``. At a random moment a random host goes: its link is cut, for longer than anybody
waits, or all its processes are killed at once. Measured is the time until the line on stderr that
says so, and whether it names that host and just its ranks.
"""

import argparse
import json
import math
import random
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from emulated_shared import cluster_text

BAR_S = 5.0
JOB = """
import os, signal, socket, sys, time
import torch
import torch.distributed as dist

def checks_of_this_host():
    here = os.readlink("/proc/self/ns/net")
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{name}/cmdline", "rb").read()
            if b"steptime\\0check" in words and os.readlink(f"/proc/{name}/ns/net") == here:
                yield int(name)
        except OSError:
            continue

dist.init_process_group("gloo")
gone, at, told = sys.argv[1], float(sys.argv[2]), False
gradients = torch.ones(100_000)
while True:
    dist.all_reduce(gradients)
    gradients /= dist.get_world_size()
    if not told and dist.get_rank() == 0:
        print("runs", time.perf_counter(), flush=True)
        told = True
    if socket.gethostname() == gone and time.perf_counter() > at:
        print("goes", time.perf_counter(), flush=True)
        for check in checks_of_this_host():
            os.kill(check, signal.SIGKILL)  # and its rank with it
        time.sleep(60)
"""


@dataclass(frozen=True)
class Case:
    """``kind``: down or dies; ``after_s``: when, since the command was started."""

    hosts: int
    devices: int
    host: int
    kind: str
    after_s: float

    def __str__(self) -> str:
        what = "is cut off" if self.kind == "down" else "dies"
        return f"{self.hosts} hosts x {self.devices}: host{self.host} {what}"

    @property
    def ranks(self) -> list[int]:
        """The ranks of the host that goes."""
        return list(range(self.host * self.devices, (self.host + 1) * self.devices))


def run(case: Case, folder: Path) -> tuple[float, str]:
    """The seconds from the host's going to the line that tells it, and that line."""
    cluster = cluster_text("Hosts that go", case.hosts, "25MB/s", case.devices)
    (folder / "cluster.toml").write_text(cluster)
    (folder / "job.py").write_text(JOB)
    begun, dies = time.perf_counter(), case.kind == "dies"
    host, at = f"host{case.host}", begun + case.after_s
    faults = "" if dies else f"{host} down at {case.after_s:.1f}s for 600s"
    emulate = [sys.executable, "-m", "steptime", "emulate", str(folder / "cluster.toml"), "--json"]
    check = [sys.executable, "-m", "steptime", "check", "--out", str(folder / "run")]
    words = [str(folder / "job.py"), host if dies else "none", str(at)]
    with (folder / "stdout").open("w") as out:
        process = subprocess.Popen(
            [*emulate, "--faults", faults, "--", *check, *words],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr
        told, line = 0.0, ""
        lines = []
        for text in process.stderr:
            lines.append(text)
            if "answers no more" in text and not told:
                told, line = time.perf_counter(), text.strip()
                process.terminate()
        process.wait()
    printed = (folder / "stdout").read_text()
    ran = [float(found) for found in re.findall(r"runs (\S+)", printed)]
    gone = [float(found) for found in re.findall(r"goes (\S+)", printed)]
    if not dies:
        answers = [json.loads(text) for text in lines if text.startswith("{")]
        gone = [fault["at_s"] for answer in answers for fault in answer["faults"]]
    if not (ran and gone and ran[0] < min(gone)):
        raise SystemExit(f"{case}: it had not begun by then\n{printed}{''.join(lines)}")
    return (told - min(gone), line) if told else (math.inf, "not told")


def named_right(case: Case, line: str) -> bool:
    found = re.match(r"steptime: host(\d+) with (ranks? .*?) answers no more", line)
    ranks = [int(word) for word in re.findall(r"\d+", found[2])] if found else []
    return bool(found) and int(found[1]) == case.host and ranks == case.ranks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start-s", type=float, default=25.0, help="how long ranks may take")
    asked = parser.parse_args()
    chance = random.Random(asked.seed)  # noqa: S311
    right, latest = 0, 0.0
    for number in range(asked.runs):
        hosts, devices = chance.randint(2, 3), chance.randint(1, 2)
        kind = ("down", "dies")[number % 2]
        after_s = asked.start_s + chance.uniform(0, 5)
        case = Case(hosts, devices, chance.randrange(hosts), kind, after_s)
        with tempfile.TemporaryDirectory(prefix="steptime-") as folder:
            seconds, line = run(case, Path(folder))
        good = named_right(case, line)
        right, latest = right + good, max(latest, seconds)
        print(f"{case}: told after {seconds:.1f} s, {'rightly' if good else line}", flush=True)
    print(f"{right} of {asked.runs} named rightly, the latest after {latest:.1f} s")
    raise SystemExit(0 if right == asked.runs and latest <= BAR_S else 1)


if __name__ == "__main__":
    main()
