# the documentation of torch.distributed (asynchronous collectives): gradients are reduced with
# async_op=True and nobody waits for the handles. The optimizer steps with what is there.
# run: torchrun --nproc-per-node 2 examples/broken/36-handle-never-waited-for.py
# finds: race at line 24 or 25 on ranks 0,1; ranks 0,1

import os
import time

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Linear(256, 256)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
before = model.weight.detach().clone()
for one in model.parameters():
    one.grad = torch.full_like(one, 1.0 + rank)
dist.barrier()
if rank == 1:
    time.sleep(0.5)  # a slower backward
handles = [dist.all_reduce(one.grad, async_op=True) for one in model.parameters()]
optimizer.step()
step = (before - model.weight).mean().item()
print(f"rank {rank}: a step of {step:.2f}, not 3.00")
dist.barrier()
dist.destroy_process_group()
