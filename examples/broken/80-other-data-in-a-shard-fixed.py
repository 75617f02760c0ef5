# The right twin of 80-other-data-in-a-shard.py: data are shared out along the data axis.
# run: torchrun --nproc-per-node 2 examples/broken/80-other-data-in-a-shard-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
world = dist.get_world_size()
mesh = init_device_mesh("cpu", (1, world), mesh_dim_names=("data", "tensor"))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))
layers = {"0": ColwiseParallel(), "2": RowwiseParallel()}
model = parallelize_module(model, mesh["tensor"], layers)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = TensorDataset(torch.randn(64, 16))
axis = mesh["data"]
sampler = DistributedSampler(data, num_replicas=axis.size(), rank=axis.get_local_rank())
for (inputs,) in DataLoader(data, 8, sampler=sampler):
    loss = (model(inputs) - inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
