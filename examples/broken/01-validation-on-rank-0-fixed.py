# The right twin of 01-validation-on-rank-0.py: validation goes through the module inside, which
# communicates nothing.
# run: torchrun --nproc-per-node 2 examples/broken/01-validation-on-rank-0-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def validate(network):
    with torch.no_grad():
        return network(torch.ones(4, 16)).square().mean().item()


for _ in range(3):
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
if rank == 0:
    loss = validate(model.module)
    print(f"validation loss {loss:.3f}")
dist.barrier()
assert rank != 0 or loss == loss
dist.destroy_process_group()
