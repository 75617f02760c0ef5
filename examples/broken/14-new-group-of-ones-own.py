# pytorch/pytorch#25390: new_group is called by each rank for its own group only. All ranks of the
# world must make all groups, in one order.
# run: torchrun --nproc-per-node 4 examples/broken/14-new-group-of-ones-own.py
# finds: mismatch at line 14 on ranks 0,1,2,3; ranks 0,1,2,3

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
halves = [[0, 1], [2, 3]]
group = dist.new_group(halves[rank // 2])
total = torch.tensor(float(rank))
dist.all_reduce(total, group=group)
print(f"rank {rank}: sum of its half {total:.0f}")
dist.destroy_process_group()
