"""One rank of test_exits: it ends as scripts do, without a word to the group.

Run as ``python leaving.py STORE RANK``, of two ranks.
"""

import os
import sys
import time

import torch
import torch.distributed as dist

import steptime.backend as backend
from steptime.errors import SteptimeError


def main(store: str, rank: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("steptime", f"file://{store}", rank=rank, world_size=2)
    alone = dist.new_group()
    vector = backend.empty(1 << 20).fill_(1)
    for work in [dist.all_reduce(vector, async_op=True) for _ in range(5)]:
        work.wait()
    print(vector[-1].item())
    print(_in_a_fork())
    dist.all_reduce(vector[:2])
    never = [dist.irecv(torch.ones(2), 1 - rank, tag=tag) for tag in range(3)]
    if rank == 0:
        try:
            dist.barrier(alone)
        except SteptimeError as error:
            print(error)
        never.append(dist.all_reduce(vector, async_op=True))
    time.sleep(0.1)


def _in_a_fork() -> str:
    """What a child of this rank is told that calls a collective, and then exits."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            dist.all_reduce(torch.ones(1))
        except SteptimeError as error:
            os.write(write, str(error).encode())
        sys.exit()
    os.waitpid(child, 0)
    return os.read(read, 1000).decode()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
