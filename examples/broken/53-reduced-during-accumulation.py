# slow though right: gradients are accumulated over 8 micro-batches, and DDP reduces them in each.
# run: torchrun --nproc-per-node 2 examples/broken/53-reduced-during-accumulation.py
# finds: slow at line 21 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

MICRO_BATCHES = 8
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(*(nn.Linear(512, 512) for _ in range(4))))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.full((16, 512), 1.0 + rank)
for _ in range(10):
    for _ in range(MICRO_BATCHES):
        (model(batch) - 1).square().mean().div(MICRO_BATCHES).backward()
    optimizer.step()
    optimizer.zero_grad()
weight = model.module[0].weight.detach().clone()
dist.broadcast(weight, src=0)
assert torch.equal(weight, model.module[0].weight)
dist.barrier()
dist.destroy_process_group()
