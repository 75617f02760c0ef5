# The right twin of 06-out-of-memory-caught.py: ranks agree whether to skip a batch, before anyone
# goes backward.
# run: torchrun --nproc-per-node 2 examples/broken/06-out-of-memory-caught-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Layer(nn.Linear):
    def forward(self, x):
        if len(x) > 16:  # a batch that this device cannot hold
            raise torch.OutOfMemoryError("out of memory")
        return super().forward(x)


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(rank)
model = DistributedDataParallel(Layer(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    rows = 32 if rank == 1 and step == 3 else 8
    fits = torch.tensor(int(rows <= 16))
    dist.all_reduce(fits, op=dist.ReduceOp.MIN)
    if not fits:
        continue
    try:
        loss = model(torch.randn(rows, 8)).square().mean()
        loss.backward()
    except torch.OutOfMemoryError:
        print(f"rank {rank}: batch skipped")
        continue
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
weight = model.module.weight.detach().clone()
dist.broadcast(weight, src=0)
assert torch.equal(weight, model.module.weight)
dist.destroy_process_group()
