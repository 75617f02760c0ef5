# The right twin of 86-biases-left-out.py: all gradients are averaged.
# run: torchrun --nproc-per-node 2 examples/broken/86-biases-left-out-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
parameters = [*model.parameters()]
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(8):
    torch.manual_seed(2 * step + rank)
    optimizer.zero_grad()
    model(torch.randn(8, 32)).square().mean().backward()
    sums = [dist.all_reduce(one.grad, async_op=True) for one in parameters]
    for parameter, handle in zip(parameters, sums, strict=True):
        handle.wait()
        parameter.grad /= world
    optimizer.step()
dist.destroy_process_group()
