# pytorch/pytorch#141069: an IterableDataset gives the ranks different numbers of batches. Under
# DDP the rank with more of them waits in its backward for one whose epoch is over.
# run: torchrun --nproc-per-node 2 examples/broken/05-uneven-batches.py
# finds: missing at line 27 on rank 0; ranks 1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        for _ in range(64 if rank == 0 else 48):
            yield torch.randn(32)


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(rank)
model = DistributedDataParallel(nn.Linear(32, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(Stream(), batch_size=8):
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"rank {rank} has trained")
dist.destroy_process_group()
