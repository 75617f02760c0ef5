# modelscope/FunASR PR #3472: gradients are accumulated over four micro-batches, and the condition
# for no_sync is off by one. The first is reduced, and the last, after which the optimizer steps, is
# not.
# run: torchrun --nproc-per-node 2 examples/broken/74-last-batch-within-no-sync.py
# finds: drift at line 26 on ranks 0,1; ranks 0,1

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
    reduced = number % accumulated == 0
    with nullcontext() if reduced else model.no_sync():
        model(torch.randn(4, 8)).square().mean().backward()
    if (number + 1) % accumulated == 0:
        optimizer.step()
        optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
