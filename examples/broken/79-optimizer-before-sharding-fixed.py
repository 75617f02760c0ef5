# The right twin of 79-optimizer-before-sharding.py: the model is sharded first.
# run: torchrun --nproc-per-node 2 examples/broken/79-optimizer-before-sharding-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(6):
    torch.manual_seed(2 * step + dist.get_rank())
    inputs = torch.randn(16, 64)
    loss = (model(inputs) - inputs).square().mean()
    optimizer.zero_grad()
    model.zero_grad()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0:
        print(f"step {step} loss {loss.item():.3f}")
dist.destroy_process_group()
