# pytorch/pytorch#44353: one rank runs out of memory in its forward, catches the error and takes
# the next batch. Its gradients' reduction of that batch never comes; in the end it is at the
# barrier while the others reduce.
# run: torchrun --nproc-per-node 2 examples/broken/06-out-of-memory-caught.py
# finds: mismatch at line 31 on rank 0, line 37 on rank 1; ranks 0,1

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
    try:
        loss = model(torch.randn(rows, 8)).square().mean()
        loss.backward()
    except torch.OutOfMemoryError:
        print(f"rank {rank}: batch skipped")
        continue
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
