# The right twin of 08-early-stopping.py: the loss that decides is the mean over ranks.
# run: torchrun --nproc-per-node 2 examples/broken/08-early-stopping-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
best, patience = float("inf"), 2
for epoch in range(10):
    gradients = torch.full((1000,), 1.0 + rank)
    dist.all_reduce(gradients)
    loss = torch.tensor(1.0 / (epoch + 1) if rank == 0 else 1.0 + 0.1 * epoch)
    dist.all_reduce(loss)
    if loss < best:
        best, patience = loss.item(), 2
    else:
        patience -= 1
    if patience == 0:
        break
print(f"rank {rank} stopped in epoch {epoch}, best loss {best:.2f}")
assert epoch == 9 or patience == 0
dist.barrier()
dist.destroy_process_group()
