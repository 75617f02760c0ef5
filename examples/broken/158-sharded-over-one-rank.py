# verl-project/verl#7493: a model is sharded over the axis of a mesh that has one rank. That is the
# whole axis, so nothing is reduced, and each rank trains a model of its own.
# run: torchrun --nproc-per-node 2 examples/broken/158-sharded-over-one-rank.py
# finds: drift at line 27 on ranks 0,1; ranks 0,1

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
fully_shard(model, mesh=mesh["shard"])
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + dist.get_rank())
for _ in range(8):
    images, labels = torch.randn(16, 64), torch.randint(0, 10, (16,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
