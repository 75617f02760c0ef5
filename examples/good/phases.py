# A training in phases, each with an optimizer of its own: that of the phase before is gone, and its
# steps are no part of this one's.
# run: torchrun --nproc-per-node 2 examples/good/phases.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)))
for rate in (0.1, 0.01, 0.001):
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    for step in range(4):
        torch.manual_seed(2 * step + rank)
        model(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
