# slow though right: DDP is told to look for unused parameters in every step, and there are none.
# run: torchrun --nproc-per-node 2 examples/broken/52-find-unused-parameters.py
# finds: slow at line 16 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
layers = nn.Sequential(*(nn.Linear(32, 32) for _ in range(4)))
model = DistributedDataParallel(layers, find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.full((16, 32), 1.0 + rank)
for _ in range(40):
    (model(batch) - 1).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
weight = layers[0].weight.detach().clone()
dist.broadcast(weight, src=0)
assert torch.equal(weight, layers[0].weight)
dist.barrier()
dist.destroy_process_group()
