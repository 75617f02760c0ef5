# ecmwf/WeatherGenerator PR #2718: whether a step is skipped for a loss that is not finite is
# decided on each rank from its own loss. One rank skips, the other one steps with gradients that
# the reduction has poisoned.
# run: torchrun --nproc-per-node 2 examples/broken/26-nan-skipped-on-one-rank.py
# finds: drift at line 28 on rank 0; ranks 0,1

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
    if finite:
        optimizer.step()
    optimizer.zero_grad()
poisoned = bool(model.module.weight.isnan().any())
print(f"rank {rank}: parameters are {'not a number' if poisoned else 'fine'}")
assert poisoned == (rank == 0), "replicas should differ"
dist.barrier()
dist.destroy_process_group()
