# one rank raises in its data preparation and writes a checkpoint before it ends, while the other
# one waits in the gradients' reduction.
# run: torchrun --nproc-per-node 2 examples/broken/43-exception-on-one-rank.py
# finds: died|missing at line 18 on rank 0, line 17 on rank 1; ranks 1

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
rows = ["1.0", "2.0", "3,0" if rank == 1 else "3.0", "4.0"]
try:
    for row in rows:
        gradient = torch.full((1000,), float(row))
        dist.all_reduce(gradient)
except ValueError:
    time.sleep(1)  # an emergency checkpoint
    raise
if rank == 0:
    print(f"gradient {gradient[0].item():.0f}")
dist.destroy_process_group()
