# The right twin of 89-stream-of-all-workers.py: each worker has a part.
# run: torchrun --nproc-per-node 2 examples/broken/89-stream-of-all-workers-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        part = dist.get_rank() * worker.num_workers + worker.id
        draw = torch.Generator().manual_seed(0)
        for number in range(160):
            sample = torch.randn(16, generator=draw)
            if number % (dist.get_world_size() * worker.num_workers) == part:
                yield sample


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(Stream(), batch_size=8, num_workers=2):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
