# ecmwf/WeatherGenerator PR #2584: every layer of a model is a unit of FSDP of its own. It is right,
# and each unit is gathered, gathered again and reduced by messages of its own.
# run: torchrun --nproc-per-node 2 examples/broken/82-units-of-one-layer.py
# finds: slow at line 24 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(0)
blocks = [nn.Sequential(*(nn.Linear(64, 64) for _ in range(6))) for _ in range(4)]
for block in blocks:
    for layer in block:
        fully_shard(layer)
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
