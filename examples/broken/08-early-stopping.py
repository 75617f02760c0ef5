# Lightning-AI/pytorch-lightning#379: each rank decides from its own validation loss whether to
# stop early. One stops and ends, the other waits for it in its next epoch.
# run: torchrun --nproc-per-node 2 examples/broken/08-early-stopping.py
# finds: missing at line 16 on rank 0; ranks 1

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
    if loss < best:
        best, patience = loss.item(), 2
    else:
        patience -= 1
    if patience == 0:
        break
print(f"rank {rank} stopped in epoch {epoch}, best loss {best:.2f}")
dist.destroy_process_group()
