# The right twin of 166-cleared-between.py: gradients are cleared after the step alone.
# run: torchrun --nproc-per-node 2 examples/broken/166-cleared-between-fixed.py
# finds: nothing

import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ACCUMULATE = 4


def set_up(length: int) -> None:
    global known
    if length != known:
        known = length


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(10 + rank)
known = 0
for step in range(6):
    for micro in range(ACCUMULATE):
        length = 8 + 2 * ((step * ACCUMULATE + micro) % 5)
        set_up(length)
        with nullcontext() if micro == ACCUMULATE - 1 else model.no_sync():
            (model(torch.randn(4, length, 32)).square().mean() / ACCUMULATE).backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
