# huggingface/datasets#3423, vahidk/tfrecord#78: a stream of samples is shared out by rank and not
# by worker, so each of the two workers of a DataLoader yields all samples of its rank, and every
# batch comes twice.
# run: torchrun --nproc-per-node 2 examples/broken/89-stream-of-all-workers.py
# finds: data at line 29 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        draw = torch.Generator().manual_seed(0)
        for number in range(160):
            sample = torch.randn(16, generator=draw)
            if number % dist.get_world_size() == dist.get_rank():
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
