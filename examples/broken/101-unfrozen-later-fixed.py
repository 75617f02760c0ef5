# 101-unfrozen-later, corrected: DDP wraps the model anew when another layer is trained.
# run: torchrun --nproc-per-node 2 examples/broken/101-unfrozen-later-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
rank = dist.get_rank()
torch.manual_seed(0)
layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
layers[0].requires_grad_(False)
model = DistributedDataParallel(layers)
optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-2)
torch.manual_seed(1 + rank)
for step in range(12):
    if step == 6:
        layers[0].requires_grad_(True)
        model = DistributedDataParallel(layers)
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
