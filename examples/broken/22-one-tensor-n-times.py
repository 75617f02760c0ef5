# pytorch/pytorch#18689: the list for the results of all_gather is written as [tensor] * n, which
# is n times the same tensor. Every entry holds what was written last.
# run: torchrun --nproc-per-node 2 examples/broken/22-one-tensor-n-times.py
# finds: race at line 15 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
mine = torch.full((100,), float(rank))
gathered = [torch.zeros(100)] * world
dist.all_gather(gathered, mine)
values = [one[0].item() for one in gathered]
print(f"rank {rank} has {values}")
assert len(set(values)) == 1, "every entry is the same"
dist.barrier()
dist.destroy_process_group()
