# The right twin of 21-shapes-differ.py: what is summed has the same shape everywhere; the rest is
# padding.
# run: torchrun --nproc-per-node 2 examples/broken/21-shapes-differ-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
for step in range(3):
    rows = 24 if rank == 1 and step == 2 else 32
    features = torch.ones(rows, 128)
    features = torch.cat([features, torch.zeros(32 - rows, 128)])
    dist.all_reduce(features)
if rank == 0:
    print(f"sum {features.sum().item():.0f}")
assert features.sum() == (32 + 24) * 128
dist.barrier()
dist.destroy_process_group()
