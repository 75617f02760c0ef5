# ecmwf/WeatherGenerator#2724: whether a batch is skipped is decided on rank 0, by its own loss, and
# sent to all. The loss that is no number is another rank's.
# run: torchrun --nproc-per-node 2 examples/broken/165-skipped-by-rank-0.py
# finds: drift at line 29 on rank 1; ranks 1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(10 + rank)
for step in range(8):
    rows = torch.randn(16, 32)
    if (step, rank) == (4, 1):
        rows[3, 5] = float("nan")
    loss = model(rows).square().mean()
    skip = (~loss.detach().isfinite()).float()
    dist.broadcast(skip, src=0)
    if skip.item():
        continue
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
