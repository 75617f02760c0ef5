# messages go round a ring, and the rank before the last takes itself for the last one: it sends to
# rank 0. The last rank waits for what never comes, and all others wait for it in the end.
# run: torchrun --nproc-per-node 4 examples/broken/49-wrong-neighbour.py
# finds: deadlock at line 18 on rank 2, line 19 on ranks 0,3; ranks 0,2,3

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
following = rank + 1 if rank < world - 2 else 0
before = (rank - 1) % world
total = part = torch.full((500_000,), float(rank))
received = torch.empty(500_000)
for _ in range(world - 1):
    sent = dist.isend(part.clone(), dst=following)
    dist.recv(received, src=before)
    sent.wait()
    part = received.clone()
    total = total + part
assert total[0] == world * (world - 1) / 2
dist.destroy_process_group()
