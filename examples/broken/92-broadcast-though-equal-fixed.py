# The right twin of 92-broadcast-though-equal.py: nothing is sent that all have.
# run: torchrun --nproc-per-node 2 examples/broken/92-broadcast-though-equal-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1 + dist.get_rank())
for _ in range(16):
    optimizer.zero_grad()
    model(torch.randn(16, 256)).square().mean().backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
