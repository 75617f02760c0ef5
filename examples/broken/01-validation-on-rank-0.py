# pytorch/pytorch#54059: rank 0 alone validates, through the DDP wrapper, whose forward broadcasts
# the buffers of batch norm. The other rank is at the barrier already: a broadcast meets a
# barrier, and both wait for ever.
# run: torchrun --nproc-per-node 2 examples/broken/01-validation-on-rank-0.py
# finds: mismatch at line 23 on rank 0, line 33 on rank 1; ranks 0,1

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
    loss = validate(model)
    print(f"validation loss {loss:.3f}")
dist.barrier()
dist.destroy_process_group()
