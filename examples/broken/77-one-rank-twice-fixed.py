# The right twin of 77-one-rank-twice.py: the rank is the one that the launcher counts.
# run: torchrun --nproc-per-node 2 examples/broken/77-one-rank-twice-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
world = int(os.environ["WORLD_SIZE"])
dist.init_process_group(os.environ.get("BACKEND", "gloo"), rank=rank, world_size=world)
total = torch.ones(4)
dist.all_reduce(total)
print(f"rank {rank} of {world}: {total.tolist()}")
dist.destroy_process_group()
