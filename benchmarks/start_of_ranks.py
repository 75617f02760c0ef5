"""How long ranks take to their first all_reduce and their end, started in three ways.

    python benchmarks/start_of_ranks.py [--ranks 4] [--rounds 5]

By ``steptime.run``, by torch.multiprocessing.spawn and by torchrun, in an order drawn anew each
round, from before the command to after its end; each rank calls one all_reduce of gloo's. Told are
medians with their ranges: by the clock, and of all processes together.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from side_by_side import machine

WAYS = {
    "st.run": """
import sys, torch, steptime as st
st.run(lambda: torch.distributed.all_reduce(torch.ones(4)), ranks=int(sys.argv[1]), backend="gloo")
""",
    "mp.spawn": """
import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
def rank(number, ranks, file):
    dist.init_process_group("gloo", init_method="file://" + file, rank=number, world_size=ranks)
    dist.all_reduce(torch.ones(4))
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(rank, (int(sys.argv[1]), os.path.abspath("met")), nprocs=int(sys.argv[1]))
""",
    "torchrun": """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
""",
}


def started(way: str, ranks: int) -> tuple[float, float]:
    """Seconds by the clock, and of processors, that a script takes to its end."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.py")
        script.write_text(WAYS[way])
        words = [str(script), str(ranks)]
        if way == "torchrun":
            words = ["-m", "torch.distributed.run", f"--nproc-per-node={ranks}", *words]
        before, start = os.times(), time.monotonic()
        environ = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, *words], cwd=folder, env=environ, check=True)
        seconds, after = time.monotonic() - start, os.times()
    used = after.children_user + after.children_system
    return seconds, used - before.children_user - before.children_system


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(f"{given.ranks} ranks on {machine()}\n")
    rounds = [
        {way: started(way, given.ranks) for way in random.sample(list(WAYS), len(WAYS))}
        for _ in range(given.rounds)
    ]
    print("             clock                 processors")
    for way in WAYS:
        columns = zip(*(one[way] for one in rounds), strict=True)
        cells = (f"{median(one):5.2f} s ({min(one):.2f}–{max(one):.2f})" for one in columns)
        print(f"{way:<10}" + "   ".join(cells))


if __name__ == "__main__":
    main()
