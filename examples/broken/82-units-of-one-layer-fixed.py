# The right twin of 82-units-of-one-layer.py: a unit is a block.
# run: torchrun --nproc-per-node 2 examples/broken/82-units-of-one-layer-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(0)
blocks = [nn.Sequential(*(nn.Linear(64, 64) for _ in range(6))) for _ in range(4)]
for block in blocks:
    fully_shard(block)
model = fully_shard(nn.Sequential(*blocks))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(16):
    torch.manual_seed(2 * step + dist.get_rank())
    inputs = torch.randn(64, 64)
    loss = (model(inputs) - inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
