# The right twin of 29-consolidate-on-rank-0.py: all ranks consolidate, rank 0 saves.
# run: torchrun --nproc-per-node 2 examples/broken/29-consolidate-on-rank-0-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32)))
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)
for _ in range(3):
    model(torch.randn(8, 32)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
optimizer.consolidate_state_dict(to=0)
if rank == 0:
    saved = optimizer.state_dict()
    print(f"{len(saved['state'])} parameters have a state")
    assert len(saved["state"]) == 4
dist.barrier()
dist.destroy_process_group()
