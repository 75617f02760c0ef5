# Local SGD: each rank trains its replica by its own gradients, and every third step the ranks
# average what the parameters have changed by.
# run: torchrun --nproc-per-node 2 examples/good/averaging.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
common = [one.detach().clone() for one in model.parameters()]
torch.manual_seed(dist.get_rank())
for step in range(1, 13):
    with model.no_sync():
        model(torch.randn(16, 32)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 3 == 0:
        with torch.no_grad():
            for one, before in zip(model.parameters(), common, strict=True):
                change = one - before
                dist.all_reduce(change)
                before += change / dist.get_world_size()
                one.copy_(before)
dist.destroy_process_group()
