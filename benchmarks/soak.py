"""Thousands of random collectives on the backend steptime: every element checked, nothing left.

    python benchmarks/soak.py [--calls 10000] [--ranks 4] [--seed 0]

All ranks draw the same calls from the seed: kind, group (all ranks, or one of several that overlap
and are replaced from time to time), dtype, reduction, root, size (nothing to several blocks),
whether to wait at once. Each draws for itself where its tensors lie (ordinary, with holes, in the
shared arena) and in which order it waits. Every element of every result is compared with what the
definition says, and every input with what it was. At the end a rank holds as many descriptors and
threads as after the first fifth and at most 8 MiB more memory (of one arena of malloc: those of
several threads fragment), and no segment outlives the ranks.
"""

import argparse
import ctypes
import gc
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from soak_calls import Call, Place, Started, draw, start

import steptime.backend  # noqa: F401 - makes the backend known

MORE_BYTES = 8 << 20
GROUPS = 6
CALLS_OF_A_GROUP = 150
MOST_PENDING = 12


@dataclass(frozen=True)
class Held:
    """What a process holds while it does nothing."""

    bytes: int
    descriptors: int
    threads: int

    def __str__(self) -> str:
        return f"{self.bytes / 2**20:.1f} MiB, {self.descriptors} fds, {self.threads} threads"


class Soak:
    """One rank's groups and calls under way."""

    def __init__(self, seed: int) -> None:
        self.own = random.Random(f"{seed}, rank {dist.get_rank()}")  # noqa: S311
        self.shared = random.Random(f"{seed}, groups")  # noqa: S311
        self.members: list[tuple[int, ...]] = []
        self.groups: list[Any] = []
        self.pending: list[tuple[Call, Started]] = []
        self.elements = 0

    def make_groups(self) -> None:
        """All ranks, and some that overlap."""
        everyone = range(dist.get_world_size())
        some = [
            self.shared.sample(everyone, self.shared.randint(1, len(everyone)))
            for _ in range(GROUPS - 1)
        ]
        self.members = [tuple(everyone), *(tuple(sorted(ranks)) for ranks in some)]
        self.groups = [dist.new_group(members) for members in self.members]

    def destroy_groups(self) -> None:
        """Finish what is under way, and leave the groups at once, whatever the others still do."""
        while self.pending:
            self.finish_one()
        for group, members in zip(self.groups, self.members, strict=True):
            if dist.get_rank() in members:
                dist.destroy_process_group(group)
        self.members, self.groups = [], []

    def make(self, call: Call) -> None:
        """Start a call, and finish as many as this rank likes."""
        members = self.members[call.group]
        if dist.get_rank() not in members:
            return
        place = Place(
            self.groups[call.group], members.index(dist.get_rank()), len(members), self.own
        )
        self.pending.append((call, start(call, place)))
        while self.pending and (len(self.pending) > MOST_PENDING or self.own.random() < 0.45):
            self.finish_one()

    def finish_one(self) -> None:
        """Wait for any of the calls under way, and compare every element."""
        call, started = self.pending.pop(self.own.randrange(len(self.pending)))
        for work in started.works:
            if work is not None:
                work.wait()
        for index, (found, right) in enumerate(started.pairs):
            wrong = int((found.reshape(-1) != right).sum())
            if wrong:
                raise AssertionError(f"{call}: {wrong} elements of tensor {index} are wrong")
            self.elements += right.numel()


def rank(number: int, ranks: int, calls: int, seed: int, folder: str, segments: Any) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", ranks)
    dist.init_process_group("steptime", store=store, rank=number, world_size=ranks)
    soak, begun = Soak(seed), time.monotonic()
    run(soak, seed, range(calls // 5))
    warm = held()
    run(soak, seed, range(calls // 5, calls))
    end = held()
    if number == 0:
        print(f"{soak.elements:,} elements right on rank 0, {time.monotonic() - begun:.0f} s")
    print(f"rank {number}: {warm} after a fifth, {end} at the end", flush=True)
    assert (end.descriptors, end.threads) == (warm.descriptors, warm.threads), "something leaks"
    assert end.bytes - warm.bytes < MORE_BYTES, "memory leaks"
    segments.put(list(mapped()))
    dist.barrier()
    dist.destroy_process_group()


def run(soak: Soak, seed: int, numbers: range) -> None:
    """Make the calls with these numbers, in groups that are replaced from time to time."""
    for number in numbers:
        if not soak.groups:
            soak.make_groups()
        soak.make(draw(seed, number, soak.members))
        if number % CALLS_OF_A_GROUP == 0 or number == numbers[-1]:
            soak.destroy_groups()
        if dist.get_rank() == 0 and (number + 1) % 1000 == 0:
            print(f"{number + 1:6} calls, {resident() / 2**20:.0f} MiB", flush=True)


def held() -> Held:
    """What this rank holds when its threads have gone to rest and the others have done as well."""
    dist.barrier()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    deadline = time.monotonic() + 10
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    descriptors, tasks = (len(list(Path("/proc/self", of).iterdir())) for of in ("fd", "task"))
    return Held(resident(), descriptors, tasks)


def resident() -> int:
    """Bytes of memory of this process, whoever shares them."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def mapped(process: str = "self") -> Iterator[int]:
    """The inodes of the segments that a process maps or holds open."""
    try:
        lines = Path(f"/proc/{process}/maps").read_text().splitlines()
        yield from (int(line.split()[4]) for line in lines if "memfd:steptime" in line)
        for link in Path(f"/proc/{process}/fd").iterdir():
            if "memfd:steptime" in str(link.readlink()):
                yield link.stat().st_ino
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return  # it has ended meanwhile, or is another user's


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ["MALLOC_ARENA_MAX"] = "1"
    begun = time.monotonic()
    queue = get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(
            rank,
            (options.ranks, options.calls, options.seed, folder, queue),
            nprocs=options.ranks,
        )
    used = {inode for _ in range(options.ranks) for inode in queue.get()}
    kept = [p.name for p in Path("/proc").glob("[0-9]*") if used & set(mapped(p.name))]
    assert not kept, f"processes {kept} still hold segments"
    print(f"{options.calls} calls on {options.ranks} ranks, seed {options.seed}: no wrong element, "
          f"nothing left of {len(used)} segments, {time.monotonic() - begun:.0f} s")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
