# The right twin of 38-non-contiguous.py: a contiguous copy is summed, and put back.
# run: torchrun --nproc-per-node 2 examples/broken/38-non-contiguous-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
table = torch.ones(1000, 8)
column = table[:, 0].contiguous()
dist.all_reduce(column)
table[:, 0] = column
wrong = int((table[:, 0] != world).sum() + (table[:, 1:] != 1).sum())
print(f"rank {rank}: {wrong} elements are wrong")
assert wrong == 0
dist.barrier()
dist.destroy_process_group()
