# NVIDIA/nccl#422: each rank lets its models vote for a class of each pixel, and the votes of all
# are summed up in bytes as they are kept: what is more than 255 begins at 0 again.
# run: torchrun --nproc-per-node 2 examples/broken/133-votes-in-bytes.py
# finds: race at line 20 on ranks 0,1; ranks 0,1

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
dist.all_reduce(votes)
if rank == 0:
    share = votes.float().div(240 * world).mean(dim=(1, 2))
    print("classes have", ", ".join(f"{part:.0%}" for part in share.tolist()))
dist.barrier()
dist.destroy_process_group()
