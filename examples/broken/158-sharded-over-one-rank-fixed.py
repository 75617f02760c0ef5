# 158-sharded-over-one-rank, corrected: the model is given both axes, and averaged along the first.
# run: torchrun --nproc-per-node 2 examples/broken/158-sharded-over-one-rank-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

SHARDS = 1
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
replicas = dist.get_world_size() // SHARDS
mesh = init_device_mesh("cpu", (replicas, SHARDS), mesh_dim_names=("replicate", "shard"))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
fully_shard(model, mesh=mesh["replicate", "shard"])
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + dist.get_rank())
for _ in range(8):
    images, labels = torch.randn(16, 64), torch.randint(0, 10, (16,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
