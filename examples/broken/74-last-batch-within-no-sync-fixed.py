# The right twin of 74-last-batch-within-no-sync.py: the last micro-batch alone is reduced.
# run: torchrun --nproc-per-node 2 examples/broken/74-last-batch-within-no-sync-fixed.py
# finds: nothing

import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
accumulated = 4
for number in range(4 * accumulated):
    reduced = (number + 1) % accumulated == 0
    with nullcontext() if reduced else model.no_sync():
        model(torch.randn(4, 8)).square().mean().backward()
    if reduced:
        optimizer.step()
        optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
