# 146-replicas-of-shards, corrected: all ranks draw the model by one seed.
# run: torchrun --nproc-per-node 4 examples/broken/146-replicas-of-shards-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

WIDTH = 64

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
for layer in (model[0], model[2], model):
    fully_shard(layer, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(10 + rank)
for _ in range(4):
    rows = torch.randn(8, WIDTH)
    optimizer.zero_grad()
    (model(rows) - rows).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
