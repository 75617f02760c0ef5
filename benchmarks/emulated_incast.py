"""All to one over real TCP: what max-min sharing does not have.

    python benchmarks/emulated_incast.py [--senders 1 3 7] [--bytes 4MiB] [--dilation 200]

So many emulated hosts of office-10gbe send to one at once, each on a connection of its own, whose
port of the switch holds 1 MiB and drops what comes beyond. Measured: when the first and the last
of them end, and how many segments TCP sent twice. *Given*: the link's rate. By max-min sharing all
would end at the same time, when the link has carried the bytes of all. *Calibrated*: the
``unfairness`` of sharing, by when the first of the fewest senders ends that are more than one.
*Predicted*: when the last of any number ends, and the first of any other. Times are the cluster's.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from steptime.arrays import Floats
from steptime.cluster import Cluster, cluster_named
from steptime.simulate.network.flows import finish_times
from steptime.units import parse_bytes

CLUSTER = "office-10gbe"
PORT = 6000
PIECE = 1 << 18


def as_rank(nbytes: int, turns: int) -> None:
    """Rank 0 takes from all others, some times, and prints when each had come to its end."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if rank == 0:
        print(json.dumps(taken(size - 1, nbytes, turns)))
        return
    before, found = resent(), []
    with connected() as to:
        for _ in range(turns):
            to.recv(1)
            to.sendall(bytes(nbytes))
            to.recv(1)
            found.append(resent() - before)
            to.sendall(found[-1].to_bytes(8, "big"))


def connected() -> socket.socket:
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection((os.environ["MASTER_ADDR"], PORT))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def taken(senders: int, nbytes: int, turns: int) -> list[dict[str, object]]:
    """Of each turn the seconds after which every sender's bytes had come, and what was resent."""
    with socket.create_server(("", PORT), backlog=senders) as server:
        peers = [server.accept()[0] for _ in range(senders)]
    found = []
    total = [0] * senders
    for _ in range(turns):
        ends = [0.0] * senders
        begin = time.perf_counter()

        def take(number: int, ends: list[float] = ends, begin: float = begin) -> None:
            peers[number].sendall(b"!")
            exactly(peers[number], nbytes)
            ends[number] = time.perf_counter() - begin

        threads = [threading.Thread(target=take, args=(number,)) for number in range(senders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        again = 0
        for number, peer in enumerate(peers):
            peer.sendall(b"?")
            now = int.from_bytes(exactly(peer, 8), "big")
            again, total[number] = again + now - total[number], now
        found.append({"ends": ends, "resent": again})
        time.sleep(0.2)
    return found


def exactly(peer: socket.socket, nbytes: int) -> bytes:
    """So many bytes; the last 8 of them are kept."""
    got, last = 0, b""
    while got < nbytes:
        piece = peer.recv(min(PIECE, nbytes - got))
        if not piece:
            raise EOFError
        got, last = got + len(piece), (last + piece)[-8:]
    return last


def resent() -> int:
    """The segments that this host's TCP sent again so far."""
    names, values = (line.split() for line in Path("/proc/net/snmp").read_text().splitlines()
                     if line.startswith("Tcp:"))  # fmt: skip
    return int(values[names.index("RetransSegs")])


def predicted(cluster: Cluster, nbytes: int, unfairness: float) -> Floats:
    """When the bytes of each host but the first have come to it, in seconds."""
    others = np.arange(1, cluster.devices)
    zeros = np.zeros(others.size)
    uneven = replace(cluster, unfairness=unfairness)
    return finish_times(uneven, others, np.zeros_like(others), zeros + nbytes, zeros)


def fitted(cluster: Cluster, nbytes: int, ratio: float) -> float:
    """The unfairness with which the first ends after such a part of the time of the last."""
    low, high = 0.0, 0.99
    for _ in range(20):
        middle = (low + high) / 2
        ends = predicted(cluster, nbytes, middle)
        low, high = (middle, high) if ends.min() / ends.max() > ratio else (low, middle)
    return (low + high) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--senders", type=int, nargs="+", default=[1, 3, 7])
    parser.add_argument("--bytes", default="4MiB")
    parser.add_argument("--dilation", type=float, default=200.0)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--as-rank", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    nbytes = parse_bytes(asked.bytes)
    if asked.as_rank:
        as_rank(nbytes, asked.turns)
        return
    print(f"{asked.bytes} from each sender; medians of {asked.turns} turns")
    print("senders        first    predicted         last    predicted  sent twice")
    unfairness = None
    for senders in asked.senders:
        name = f"{CLUSTER}:hosts={senders + 1}"
        emulate = [sys.executable, "-m", "steptime", "emulate", name, "--quiet"]
        itself = [sys.executable, __file__, "--as-rank", "--bytes", str(nbytes)]
        emulate += ["--time-dilation", str(asked.dilation), "--"]
        itself += ["--turns", str(asked.turns)]
        done = subprocess.run([*emulate, *itself], stdout=subprocess.PIPE, check=True)
        found = json.loads(done.stdout)
        first = median(min(turn["ends"]) for turn in found) / asked.dilation
        last = median(max(turn["ends"]) for turn in found) / asked.dilation
        cluster = cluster_named(name)
        if senders > 1 and unfairness is None:
            unfairness, calibrated = fitted(cluster, nbytes, first / last), True
        else:
            calibrated = False
        ends = predicted(cluster, nbytes, unfairness or 0.0)
        segments = median(turn["resent"] for turn in found)
        told = "calibrated" if calibrated else f"{ends.min() / first - 1:+.1%}"
        print(
            f"{senders:>7}{1e3 * first:>10.2f} ms{told:>13}{1e3 * last:>10.2f} ms"
            f"{ends.max() / last - 1:>+13.1%}{segments:>12,.0f}",
            flush=True,
        )
    if unfairness is not None:
        print(f"unfairness {unfairness:.3f}")


if __name__ == "__main__":
    main()
