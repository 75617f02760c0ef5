"""Random messages on random networks, through steptime and through SimGrid."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from simulate.networks import table
from steptime.cluster import NO_LINK
from steptime.simulate.network.flows import finish_times

SETS = 50
PYTHON = "/usr/bin/python3"  # Debian's, for which python3-simgrid is

installed = (
    Path(PYTHON).exists()
    and subprocess.run([PYTHON, "-c", "import simgrid"], capture_output=True).returncode == 0
)


def random_set(rng, *, hops=None, latency=None):
    """A network and messages on it: all paths of ``hops`` links, or of any number.

    Without ``latency`` links have any.
    """
    devices, links = rng.integers(2, 7), rng.integers(3, 11)
    paths = np.full((devices, devices, links), NO_LINK, np.int32)
    for a, b in np.argwhere(~np.eye(devices, dtype=bool)):
        length = hops or rng.integers(1, links + 1)
        paths[a, b, :length] = rng.permutation(links)[:length]
    bandwidth = rng.choice([1e6, 2e6, 2.5e6, rng.uniform(1e6, 1e7)], links)
    delays = np.full(links, latency) if latency else rng.uniform(0, 0.1, links)
    count = rng.integers(1, 25)
    src = rng.integers(0, devices, count)
    dst = (src + rng.integers(1, devices, count)) % devices
    nbytes = rng.choice([1_000_000, 3_000_000, rng.integers(1000, 10_000_000)], count)
    return (
        table(bandwidth, delays, paths),
        src,
        dst,
        nbytes,
        rng.choice([0, 0.5, rng.random()], count),
    )


def for_simgrid(cluster, src, dst, nbytes, start, *, wait):
    """A set as simgrid_peer reads it; with ``wait`` the senders wait out the latencies."""
    every = np.arange(cluster.devices)
    pairs = [(int(a), int(b)) for a in every for b in every if a != b]
    path = {
        pair: [int(k) for k in cluster.paths(*np.reshape(pair, (2, 1)))[0] if k >= 0]
        for pair in pairs
    }
    latency = cluster.links.latency
    delays = [wait * latency[path[pair]].sum() for pair in zip(src, dst, strict=True)]
    flows = zip(src.tolist(), dst.tolist(), nbytes.tolist(), (start + delays).tolist(), strict=True)
    links = zip(cluster.links.bandwidth.tolist(), ((1 - wait) * latency).tolist(), strict=True)
    return {
        "hosts": cluster.devices,
        "links": list(links),
        "routes": [(*pair, path[pair]) for pair in pairs],
        "flows": list(flows),
    }


@pytest.mark.skipif(not installed, reason="needs Debian's python3-simgrid")
def test_messages_arrive_when_simgrid_says():
    # SimGrid's CM02 gives a flow of twice the latency half the share. So in one half of the sets
    # all paths have the same latency, and in the other the senders wait it out.
    rng = np.random.default_rng(4)
    cases, described = [], []
    for number in range(SETS):
        wait = number % 2
        same = {} if wait else {"hops": int(rng.integers(1, 4)), "latency": rng.uniform(1e-3, 0.1)}
        case = random_set(rng, **same)
        cases.append(case)
        described.append(for_simgrid(*case, wait=wait))
    peer = Path(__file__).with_name("simgrid_peer.py")
    ran = subprocess.run(
        [PYTHON, peer], input=json.dumps(described), capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    for case, times in zip(cases, json.loads(ran.stdout), strict=True):
        np.testing.assert_allclose(finish_times(*case), times, rtol=1e-6)
