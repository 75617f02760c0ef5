# slow though right: all gradients are reduced after the backward, while nothing is computed.
# run: torchrun --nproc-per-node 2 examples/broken/51-no-overlap.py
# finds: slow at line 20 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.full((512, 512), 1.0 + rank)
for _ in range(10):
    (model(batch) - 1).square().mean().backward()
    for one in model.parameters():
        dist.all_reduce(one.grad)
        one.grad /= world
    optimizer.step()
    optimizer.zero_grad()
weight = next(model.parameters()).detach().clone()
dist.broadcast(weight, src=0)
assert torch.equal(weight, next(model.parameters()))
dist.barrier()
dist.destroy_process_group()
