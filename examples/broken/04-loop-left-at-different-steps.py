# huggingface/transformers#17478: ranks reach the maximum number of steps at different times,
# since each counts for itself. The rank that is out waits in the last barrier, the other one in
# the reduction of its next step.
# run: torchrun --nproc-per-node 2 examples/broken/04-loop-left-at-different-steps.py
# finds: mismatch at line 19 on rank 0, line 21 on rank 1; ranks 0,1

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
samples = 40 if rank == 0 else 32  # the last shard of the data set is smaller
steps = torch.tensor(samples // 8)
weight = torch.zeros(1000)
for _ in range(int(steps)):
    gradient = torch.full((1000,), float(rank))
    dist.all_reduce(gradient)
    weight -= gradient / world
dist.barrier()
if rank == 0:
    print(f"trained: {weight[0]:.2f}")
dist.destroy_process_group()
