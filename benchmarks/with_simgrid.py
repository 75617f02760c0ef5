"""What the benchmarks of the simulator share: a tree of hosts, for steptime and for SimGrid."""

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter
from unittest.mock import patch

import numpy as np

from steptime.cluster.files import parse_cluster
from steptime.collectives import algorithm_named, schedule
from steptime.simulate.carry import carry
from steptime.simulate.network.simulator import NetworkSimulator

BANDWIDTH, LATENCY = 25e9, 5e-6  # of each host's link, each way: bytes/s, seconds

OPTIONS = (
    "--cfg=network/model:CM02",
    "--cfg=network/crosstraffic:0",
    "--cfg=network/TCP-gamma:1e30",  # no bound by the window
    "--cfg=surf/precision:1e-12",
    "--log=root.thres:error",
)


@dataclass(frozen=True)
class Case:
    """A collective of ``ranks`` hosts, ``per_leaf`` on a switch whose trunk is oversubscribed."""

    kind: str
    algorithm: str
    ranks: int
    nbytes: int
    per_leaf: int
    oversubscription: int = 1

    def steptime(self, *, by_events: bool = False) -> tuple[float, float, int]:
        """Simulated seconds, wall-clock seconds and messages; the time includes all but imports.

        ``by_events``: by the engine alone, without the shortcut for a collective that is the only
        one under way and whose messages share no link.
        """
        shortcut = NetworkSimulator._finish_unshared
        with patch.object(
            NetworkSimulator,
            "_finish_unshared",
            lambda network: not by_events and shortcut(network),
        ):
            return self._carried()

    def _carried(self) -> tuple[float, float, int]:
        start = perf_counter()
        cluster = parse_cluster(self._file(), "tree")
        plan = schedule(algorithm_named(self.kind, self.algorithm), self.ranks)
        result = carry(plan, cluster, np.arange(self.ranks), self.nbytes)
        return result.seconds, perf_counter() - start, result.messages

    def simgrid(self, peer: Path) -> tuple[float, float]:
        """Simulated seconds, and wall-clock seconds of the simulation alone."""
        trunk = self.per_leaf * BANDWIDTH / self.oversubscription
        numbers = (self.ranks, self.nbytes, self.per_leaf, BANDWIDTH, LATENCY, trunk)
        command = [peer, self.algorithm, *map(str, numbers), *OPTIONS]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, wall = map(float, done.stdout.split())
        return seconds, wall

    def _file(self) -> str:
        return f"""
            [device]
            name = "host"
            flops = {{ fp32 = "1TFLOP/s" }}
            memory = "1GB"
            memory_bandwidth = "1GB/s"
            [host]
            count = {self.ranks}
            [nic]
            bandwidth = "{BANDWIDTH / 1e9}GB/s"
            latency = "{LATENCY * 1e6}us"
            [network]
            kind = "fat_tree"
            latency = "0us"
            hosts_per_leaf = {self.per_leaf}
            oversubscription = {self.oversubscription}
        """


def built() -> Path | None:
    """The peer, compiled; None where there is no SimGrid or no compiler."""
    compiler, source = shutil.which("g++"), Path(__file__).with_name("simgrid_peer.cpp")
    if compiler is None or not Path("/usr/include/simgrid/s4u.hpp").exists():
        return None
    peer = Path(mkdtemp()) / "simgrid_peer"
    subprocess.run([compiler, "-O2", "-std=c++17", source, "-lsimgrid", "-o", peer], check=True)
    return peer


def machine() -> str:
    """The processor, its cores and how busy they are."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    model = next(named, platform.machine())
    return f"{model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}"
