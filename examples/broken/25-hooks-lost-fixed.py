# The right twin of 25-hooks-lost.py: the model is moved before it is wrapped.
# run: torchrun --nproc-per-node 2 examples/broken/25-hooks-lost-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(32, 32).to(torch.float64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(10):
    batch = torch.randn(16, 32, dtype=torch.float64)
    (model(batch) - batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
weight = model.module.weight.detach().clone()
dist.broadcast(weight, src=0)
same = torch.equal(weight, model.module.weight)
print(f"rank {rank}: the replica is {'the same' if same else 'different'}")
assert same
dist.barrier()
dist.destroy_process_group()
