# The right twin of 22-one-tensor-n-times.py: the list has a tensor for each rank.
# run: torchrun --nproc-per-node 2 examples/broken/22-one-tensor-n-times-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
mine = torch.full((100,), float(rank))
gathered = [torch.zeros(100) for _ in range(world)]
dist.all_gather(gathered, mine)
values = [one[0].item() for one in gathered]
print(f"rank {rank} has {values}")
assert values == [0.0, 1.0]
dist.barrier()
dist.destroy_process_group()
