# huggingface/accelerate#3092: data are shared out by the rank in the world, among ranks that have
# the shards of one layer. Each multiplies its shard by a batch of its own, and they sum that up.
# run: torchrun --nproc-per-node 2 examples/broken/80-other-data-in-a-shard.py
# finds: drift at line 26 on ranks 0,1; ranks 0,1

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
sampler = DistributedSampler(data)
for (inputs,) in DataLoader(data, 8, sampler=sampler):
    loss = (model(inputs) - inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
