# The right twin of 43-exception-on-one-rank.py: what cannot be parsed is left out.
# run: torchrun --nproc-per-node 2 examples/broken/43-exception-on-one-rank-fixed.py
# finds: nothing

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
rows = ["1.0", "2.0", "3,0" if rank == 1 else "3.0", "4.0"]
rows = [row.replace(",", ".") for row in rows]
try:
    for row in rows:
        gradient = torch.full((1000,), float(row))
        dist.all_reduce(gradient)
except ValueError:
    time.sleep(1)  # an emergency checkpoint
    raise
if rank == 0:
    print(f"gradient {gradient[0].item():.0f}")
assert (gradient == 4 * world).all()
dist.barrier()
dist.destroy_process_group()
