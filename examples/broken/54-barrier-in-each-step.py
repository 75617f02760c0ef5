# slow though right: every step ends with a barrier and with a sum of the loss that is read at
# once.
# run: torchrun --nproc-per-node 2 examples/broken/54-barrier-in-each-step.py
# finds: slow at line 26 or 28 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.full((16, 64), 1.0 + rank)
losses = []
for _ in range(30):
    loss = (model(batch) - 1).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    whole = loss.detach().clone()
    dist.all_reduce(whole)
    losses.append(whole.item() / world)
    dist.barrier()
assert losses[-1] < losses[0]
dist.destroy_process_group()
