# slow though right: the gradients of 200 small parameters are reduced one by one, each at the
# price of a message.
# run: torchrun --nproc-per-node 2 examples/broken/50-tiny-collectives.py
# finds: slow at line 21 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(100)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.full((32, 8), 1.0 + rank)
for _ in range(8):
    (model(batch) - 1).square().mean().backward()
    for one in model.parameters():
        dist.all_reduce(one.grad)
        one.grad /= world
    optimizer.step()
    optimizer.zero_grad()
weight = model[0].weight.detach().clone()
dist.broadcast(weight, src=0)
assert torch.equal(weight, model[0].weight)
dist.barrier()
dist.destroy_process_group()
