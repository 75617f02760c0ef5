# The right twin of 171-sorted-there.py: both ranks go through the parameters in one order.
# run: torchrun --nproc-per-node 2 examples/broken/171-sorted-there-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn

LAYERS, WIDTH = 12, 32

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(rank)
model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))
trains = rank == 0
if trains:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
weights = dict(model.named_parameters())
names = sorted(weights)
for _ in range(4):
    for _ in range(3 if trains else 0):
        rows = torch.randn(16, WIDTH)
        optimizer.zero_grad()
        (model(rows) - rows).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        for name in names:
            dist.broadcast(weights[name].detach(), src=0)
        if not trains:
            model(torch.randn(4, WIDTH))
dist.destroy_process_group()
