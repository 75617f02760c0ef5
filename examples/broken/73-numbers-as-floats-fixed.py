# The right twin of 73-numbers-as-floats.py: both ends have one dtype.
# run: torchrun --nproc-per-node 2 examples/broken/73-numbers-as-floats-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
sent = torch.arange(2, dtype=torch.int32) + 2 * rank
received = torch.empty(2, dtype=torch.int32)
following, before = (rank + 1) % world, (rank - 1) % world
both = [dist.P2POp(dist.isend, sent, following), dist.P2POp(dist.irecv, received, before)]
for work in dist.batch_isend_irecv(both):
    work.wait()
print(f"rank {rank} received {received.tolist()}")
dist.barrier()
dist.destroy_process_group()
