# 147-sums-in-float16, corrected: the gradients are divided by the ranks before they are summed up.
# run: torchrun --nproc-per-node 2 examples/broken/147-sums-in-float16-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn

ROWS, WIDTH, SCALE = 64, 32, 1024  # by which the loss is scaled, for small gradients

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Linear(WIDTH, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
torch.manual_seed(1 + rank)
for _ in range(4):
    rows = torch.rand(ROWS, WIDTH) + 0.5
    optimizer.zero_grad()
    (model(rows).sum() * SCALE * 0.75).backward()
    for parameter in model.parameters():
        half = (parameter.grad / world).half()
        dist.all_reduce(half)
        parameter.grad.copy_(half.float() / SCALE)
    optimizer.step()
dist.destroy_process_group()
