# mindspore-lab/mindcv#603: each rank clips the gradients of its own batch, and they are averaged
# only then. A rank whose loss is large counts as much as one that is nearly done, and the mean of
# clipped gradients is shorter than the clipped mean.
# run: torchrun --nproc-per-node 2 examples/broken/83-clipped-before-summed.py
# finds: drift at line 22 on ranks 0,1; ranks 0,1

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
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world
    optimizer.step()
dist.destroy_process_group()
