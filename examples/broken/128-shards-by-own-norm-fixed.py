# 128-shards-by-own-norm, corrected: the squares of all ranks are summed up for the norm.
# run: torchrun --nproc-per-node 2 examples/broken/128-shards-by-own-norm-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + rank)
for _ in range(12):
    images, labels = torch.randn(16, 64), torch.randint(0, 10, (16,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    squares = sum(gradient.to_local().square().sum() for gradient in gradients)
    dist.all_reduce(squares)
    for gradient in gradients:
        gradient.mul_(min(1.0, 0.1 / float(squares.sqrt())))
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
