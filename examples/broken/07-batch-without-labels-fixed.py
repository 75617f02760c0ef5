# The right twin of 07-batch-without-labels.py: such a batch has a loss of zero, and goes backward
# like any other.
# run: torchrun --nproc-per-node 4 examples/broken/07-batch-without-labels-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = DistributedDataParallel(nn.Linear(16, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(4):
    labels = torch.randint(10, (8,))
    if rank == 2 and step == 3:
        labels[:] = -100
    logits = model(torch.randn(8, 16))
    loss = cross_entropy(logits, labels, ignore_index=-100, reduction="sum") / 8
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
everyone = [torch.empty(1) for _ in range(world)]
dist.all_gather(everyone, torch.tensor([sum(losses)]))
if rank == 0:
    print("losses", [round(one.item(), 2) for one in everyone])
assert len(losses) == 4
dist.barrier()
dist.destroy_process_group()
