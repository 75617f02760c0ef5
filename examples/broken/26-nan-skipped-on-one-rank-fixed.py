# The right twin of 26-nan-skipped-on-one-rank.py: the ranks agree whether to skip.
# run: torchrun --nproc-per-node 2 examples/broken/26-nan-skipped-on-one-rank-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(32, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(8):
    batch = torch.randn(16, 32)
    if rank == 1 and step == 7:
        batch[0, 0] = float("nan")
    loss = (model(batch) - 1).square().mean()
    loss.backward()
    finite = torch.isfinite(loss).int()
    dist.all_reduce(finite, op=dist.ReduceOp.MIN)
    if finite:
        optimizer.step()
    optimizer.zero_grad()
poisoned = bool(model.module.weight.isnan().any())
print(f"rank {rank}: parameters are {'not a number' if poisoned else 'fine'}")
assert not poisoned
dist.barrier()
dist.destroy_process_group()
