# The right twin of 42-killed-by-the-kernel.py: no rank needs more than there is.
# run: torchrun --nproc-per-node 2 examples/broken/42-killed-by-the-kernel-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
for _ in range(10):
    gradient = torch.ones(1000)
    dist.all_reduce(gradient)
if rank == 0:
    print(f"gradient {gradient[0].item():.0f}")
assert (gradient == world).all()
dist.barrier()
dist.destroy_process_group()
