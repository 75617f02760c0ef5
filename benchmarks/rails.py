"""Several rails: what the backend reaches over one, two and four interfaces of a host.

    python benchmarks/rails.py [--rails 2 4] [--sizes 4MiB 16MiB] [--dilation 20]

Two hosts with NICs of 1.175 GB/s each, emulated and slower by the dilation. Each run has as many
interfaces as NICs; in one run all_reduce and a message one way are timed in turn by a group on all
interfaces and by one on the first alone. *Given*: the rates. *Predicted*: that of n rails a message
takes an n-th of the time, and all_reduce too, which the table has as a share of that speed.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from emulated_shared import cluster_text

from steptime.units import parse_bytes

TURNS = 5


def as_rank(sizes: list[str]) -> None:
    import torch
    import torch.distributed as dist

    import steptime.backend  # noqa: F401

    torch.set_num_threads(1)
    every = os.environ["STEPTIME_SOCKET_IFNAME"]
    dist.init_process_group("steptime")
    os.environ["STEPTIME_SOCKET_IFNAME"] = every.split(",")[0]
    groups = {"one": dist.new_group(), "all": dist.group.WORLD}
    other = 1 - dist.get_rank()
    for size in sizes:
        vector, byte = torch.zeros(parse_bytes(size) // 4), torch.zeros(1)
        for op in ("send", "all_reduce"):
            took: dict[str, list[float]] = {name: [] for name in groups}
            for _ in range(TURNS + 1):
                for name, group in groups.items():
                    dist.barrier(group)
                    begin = time.perf_counter()
                    if op == "all_reduce":
                        dist.all_reduce(vector, group=group)
                    elif dist.get_rank() == 0:
                        dist.send(vector, other, group)
                        dist.recv(byte, other, group)
                    else:
                        dist.recv(vector, other, group)
                        dist.send(byte, other, group)
                    took[name].append(time.perf_counter() - begin)
            if dist.get_rank() == 0:
                print(json.dumps([op, size, {n: median(t[1:]) for n, t in took.items()}]))
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rails", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--sizes", nargs="+", default=["4MiB", "16MiB"])
    parser.add_argument("--dilation", type=float, default=20)
    parser.add_argument("--as-rank", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.as_rank:
        as_rank(asked.sizes)
        return
    print("rails          size    one rail        all   times as fast")
    for rails in asked.rails:
        with TemporaryDirectory() as folder:
            file = Path(folder, "rails.toml")
            file.write_text(cluster_text("Two hosts on rails", 2, "1.175GB/s", nics=rails))
            options = ["--quiet", "--rails", str(rails), "--time-dilation", str(asked.dilation)]
            itself = [sys.executable, __file__, "--as-rank", "--sizes", *asked.sizes]
            done = subprocess.run(
                [sys.executable, "-m", "steptime", "emulate", str(file), *options, "--", *itself],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
        for op, size, took in map(json.loads, done.stdout.splitlines()):
            print(
                f"{rails:>5} {op:<10}{size:>7} {1e3 * took['one']:>8.1f} ms "
                f"{1e3 * took['all']:>7.1f} ms {took['one'] / took['all']:>8.2f}"
            )


if __name__ == "__main__":
    main()
