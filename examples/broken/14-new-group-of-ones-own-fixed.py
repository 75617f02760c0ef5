# The right twin of 14-new-group-of-ones-own.py: every rank makes both groups, and keeps its own.
# run: torchrun --nproc-per-node 4 examples/broken/14-new-group-of-ones-own-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
halves = [[0, 1], [2, 3]]
groups = [dist.new_group(ranks) for ranks in halves]
group = groups[rank // 2]
total = torch.tensor(float(rank))
dist.all_reduce(total, group=group)
print(f"rank {rank}: sum of its half {total:.0f}")
assert total == (1 if rank < 2 else 5)
dist.barrier()
dist.destroy_process_group()
