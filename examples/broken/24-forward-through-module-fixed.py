# The right twin of 24-forward-through-module.py: the forward goes through the wrapper.
# run: torchrun --nproc-per-node 2 examples/broken/24-forward-through-module-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)))
optimizer = torch.optim.AdamW(model.parameters())
torch.manual_seed(1 + rank)
for _ in range(10):
    batch = torch.randn(16, 32)
    loss = (model(batch) - batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
weight = model.module[0].weight.detach().clone()
dist.broadcast(weight, src=0)
same = torch.equal(weight, model.module[0].weight)
print(f"rank {rank}: the replica is {'the same' if same else 'different'}")
assert same
dist.barrier()
dist.destroy_process_group()
