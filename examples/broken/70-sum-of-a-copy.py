# pytorch/pytorch#102435: the sum of the losses is taken of what the line itself converts, there to
# the GPU and here to another dtype. It is right, and nobody has it: each rank goes on with its own.
# run: torchrun --nproc-per-node 2 examples/broken/70-sum-of-a-copy.py
# finds: race at line 26 on ranks 0,1; ranks 0,1

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
dist.all_reduce(total.float())
total /= 8 * world
if rank == 0:
    print(f"mean loss {total.item():.3f}")
dist.destroy_process_group()
