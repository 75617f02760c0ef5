# the twin on gloo of pytorch/pytorch#159548: a column of a matrix is summed over ranks. It is not
# contiguous, and gloo of torch 2.13 takes as many elements from its beginning as if it were.
# run: torchrun --nproc-per-node 2 examples/broken/38-non-contiguous.py
# finds: race at line 14 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
table = torch.ones(1000, 8)
dist.all_reduce(table[:, 0])
wrong = int((table[:, 0] != world).sum() + (table[:, 1:] != 1).sum())
print(f"rank {rank}: {wrong} elements are wrong")
assert wrong > 0
dist.barrier()
dist.destroy_process_group()
