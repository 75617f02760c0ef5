# The right twin of 04-loop-left-at-different-steps.py: the number of steps is agreed on before
# the loop.
# run: torchrun --nproc-per-node 2 examples/broken/04-loop-left-at-different-steps-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
samples = 40 if rank == 0 else 32  # the last shard of the data set is smaller
steps = torch.tensor(samples // 8)
dist.all_reduce(steps, op=dist.ReduceOp.MIN)
weight = torch.zeros(1000)
for _ in range(int(steps)):
    gradient = torch.full((1000,), float(rank))
    dist.all_reduce(gradient)
    weight -= gradient / world
dist.barrier()
if rank == 0:
    print(f"trained: {weight[0]:.2f}")
assert weight.unique().item() == -2.0
dist.destroy_process_group()
