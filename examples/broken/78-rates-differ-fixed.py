# The right twin of 78-rates-differ.py: the learning rate follows the step.
# run: torchrun --nproc-per-node 2 examples/broken/78-rates-differ-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    torch.manual_seed(2 * step + rank)
    for group in optimizer.param_groups:
        group["lr"] = 0.1 * (1 - step / 12)
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
