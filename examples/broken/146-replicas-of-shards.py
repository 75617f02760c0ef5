# pytorch/pytorch#140183, mosaicml/llm-foundry PR #830: each rank draws the model by a seed of its
# own. Two ranks share one, and the other two another: fully_shard does not send any.
# run: torchrun --nproc-per-node 4 examples/broken/146-replicas-of-shards.py
# finds: drift at line 29 on ranks 0,1,2,3; ranks 0,1,2,3

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
torch.manual_seed(rank)
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
