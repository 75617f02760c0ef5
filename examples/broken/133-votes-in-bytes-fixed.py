# 133-votes-in-bytes, corrected: the votes of all ranks are summed up as larger numbers.
# run: torchrun --nproc-per-node 2 examples/broken/133-votes-in-bytes-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1 + rank)
votes = torch.zeros(4, 32, 32, dtype=torch.uint8)
for _ in range(240):
    chosen = torch.rand(4, 32, 32).argmax(0)
    chosen[:16] = 2  # here all agree
    votes.scatter_add_(0, chosen[None], torch.ones(1, 32, 32, dtype=torch.uint8))
# The mean of all models, not of this rank's alone.
votes = votes.int()
dist.all_reduce(votes)
if rank == 0:
    share = votes.float().div(240 * world).mean(dim=(1, 2))
    print("classes have", ", ".join(f"{part:.0%}" for part in share.tolist()))
dist.barrier()
dist.destroy_process_group()
