# The right twin of 49-wrong-neighbour.py: every rank sends to the next, the last one to rank 0.
# run: torchrun --nproc-per-node 4 examples/broken/49-wrong-neighbour-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
following = (rank + 1) % world
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
