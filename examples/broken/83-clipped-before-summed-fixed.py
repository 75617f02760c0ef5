# The right twin of 83-clipped-before-summed.py: the mean is clipped.
# run: torchrun --nproc-per-node 2 examples/broken/83-clipped-before-summed-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    torch.manual_seed(2 * step + rank)
    optimizer.zero_grad()
    (model(torch.randn(8, 16)) - 10 * (rank + 1)).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
dist.destroy_process_group()
