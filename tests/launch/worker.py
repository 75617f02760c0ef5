"""What the ranks of these tests run: ``python worker.py ROLE [FOLDER]``."""

import os
import signal
import sys
import time
from pathlib import Path

from steptime.errors import SteptimeError, UsageError
from steptime.launch import end_rank, follow_launcher, report_error
from steptime.world import SINGLE, World, detect


def print_environment(world: World) -> None:
    names = ("WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    print(world.launcher, *(os.environ[name] for name in names))
    print(*(name for name in os.environ if name.startswith("TORCHELASTIC_")))


def greet(world: World) -> None:
    os.write(1, f"{world.launcher} rank {world.rank} of {world.size}\n".encode())


def exit_with_3_on_rank_1(world: World) -> None:
    os.write(2, f"the trouble of rank {world.rank}\n".encode())  # as one: ranks' lines mix
    folder = Path(sys.argv[2])
    (folder / str(world.rank)).touch()
    while world.rank == 1 and len(list(folder.iterdir())) < world.size:
        time.sleep(0.01)
    sys.exit(3 if world.rank == 1 else 0)


def raise_on_rank_1(world: World) -> None:
    if world.rank == 1:
        raise ValueError("a mistake in the program")


def ignore_sigterm_while_rank_0_fails(world: World) -> None:
    if world.rank == 0:
        time.sleep(0.5)
        raise UsageError("rank 0 cannot go on")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def print_much(world: World) -> None:
    sys.stdout.write(f"{world.rank}" * 1_000_000 + "\n")


def sleep(world: World) -> None:
    (Path(sys.argv[2]) / f"{world.rank}.pid").write_text(str(os.getpid()))
    time.sleep(600)


def print_imports(world: World) -> None:
    has = "" if sys.argv[2] in sys.modules else "no "
    name = Path("/proc/self/comm").read_text().strip()
    print(f"{name} of {world.size} has {has}{sys.argv[2]}")


def draw(world: World) -> None:
    import random

    import numpy as np

    drawn = (random.random(), np.random.rand())  # noqa: S311
    (Path(sys.argv[2]) / f"{world.rank}").write_text("\n".join(map(repr, drawn)))


def die_in_a_collective(world: World) -> None:
    import torch
    import torch.distributed as dist

    for step in range(1_000_000):
        if step == 100 and world.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(1000))


def raise_with_a_collective_in_flight(world: World) -> None:
    import torch
    import torch.distributed as dist

    if world.rank == 1:
        handle = dist.all_reduce(torch.ones(1000), async_op=True)
        time.sleep(0.5)
        raise UsageError(f"rank 1 holds {type(handle).__name__} and gives up")
    dist.barrier()


def add(world: World) -> None:
    import torch
    import torch.distributed as dist

    total = torch.ones(())
    dist.all_reduce(total)
    # In one write: print writes the line end on its own where Python does not buffer, and another
    # rank's line can come between.
    os.write(1, f"{world.launcher} rank {world.rank} of {total:.0f}\n".encode())


def train(world: World) -> None:
    import torch

    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    for _ in range(3):
        model(torch.ones(4, 8)).sum().backward()
    add(world)


JOINED = (die_in_a_collective, raise_with_a_collective_in_flight, add, train)
ROLES = {
    role.__name__: role
    for role in (
        *JOINED,
        print_environment,
        greet,
        exit_with_3_on_rank_1,
        raise_on_rank_1,
        ignore_sigterm_while_rank_0_fails,
        print_much,
        sleep,
        print_imports,
        draw,
    )
}


def main() -> None:
    role = ROLES[sys.argv[1]]
    follow_launcher(os.environ)
    try:
        world = detect(os.environ) or SINGLE
        if role in JOINED:
            from steptime.world.join import joined

            with joined(world, "gloo", threads=1, timeout_s=600):
                role(world)
        else:
            role(world)
    except SteptimeError as error:
        if not report_error(os.environ, error):
            os.write(2, f"steptime: {error}\n".encode())
        end_rank(error.exit_code)


if __name__ == "__main__":
    main()
