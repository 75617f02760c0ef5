# 124-nothing-sent-back, corrected: the gradient comes back, and the first stage makes its backward.
# run: torchrun --nproc-per-node 2 examples/broken/124-nothing-sent-back-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(rank)
first, last = rank == 0, rank == world - 1
stage = nn.Linear(64, 32) if first else nn.Linear(32, 10 if last else 32)
optimizer = torch.optim.AdamW(stage.parameters(), lr=1e-3)
for step in range(12):
    torch.manual_seed(1 + step)
    images, labels = torch.randn(16, 64), torch.randint(0, 10, (16,))
    taken = torch.empty(16, 32)
    if not first:
        dist.recv(taken, rank - 1)
    given = stage(images if first else taken.requires_grad_())
    gradient = torch.empty_like(given)
    if last:
        nn.functional.cross_entropy(given, labels).backward()
    else:
        dist.send(given.detach(), rank + 1)
        dist.recv(gradient, rank + 1)
        given.backward(gradient)
    if not first:
        dist.send(taken.grad, rank - 1)
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
