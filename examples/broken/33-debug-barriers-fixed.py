# The right twin of 33-debug-barriers.py: there is one barrier a step, outside the loop.
# run: torchrun --nproc-per-node 2 examples/broken/33-debug-barriers-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
micro_batches = 4 if rank == 0 else 3
gradient = torch.zeros(1000)
for _ in range(micro_batches):
    gradient += 1
dist.barrier()
dist.all_reduce(gradient)
if rank == 0:
    print(f"gradient {gradient[0].item():.0f}")
assert (gradient == 7).all()
dist.destroy_process_group()
