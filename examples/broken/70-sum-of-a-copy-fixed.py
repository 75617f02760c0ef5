# The right twin of 70-sum-of-a-copy.py: the sum has a name.
# run: torchrun --nproc-per-node 2 examples/broken/70-sum-of-a-copy-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = torch.zeros(1, dtype=torch.double)
for step in range(8):
    torch.manual_seed(2 * step + rank)
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.detach()
total = total.float()
dist.all_reduce(total)
total /= 8 * world
if rank == 0:
    print(f"mean loss {total.item():.3f}")
dist.destroy_process_group()
