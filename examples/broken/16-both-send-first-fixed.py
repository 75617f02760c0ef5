# The right twin of 16-both-send-first.py: both directions are posted at once.
# run: torchrun --nproc-per-node 2 examples/broken/16-both-send-first-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
peer = 1 - rank
mine = torch.full((8_000_000,), float(rank))
theirs = torch.empty_like(mine)
dist.barrier()
operations = [dist.P2POp(dist.isend, mine, peer), dist.P2POp(dist.irecv, theirs, peer)]
for request in dist.batch_isend_irecv(operations):
    request.wait()
print(f"rank {rank} has the halo of rank {theirs[0].item():.0f}")
assert (theirs == peer).all()
dist.destroy_process_group()
