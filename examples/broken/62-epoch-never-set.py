# pytorch/pytorch#31771: a DistributedSampler shuffles by its seed and its epoch, which nobody sets.
# Every pass has the same batches in the same order.
# run: torchrun --nproc-per-node 2 examples/broken/62-epoch-never-set.py
# finds: data at line 23 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
rows = torch.randn(96, 16)
dataset = TensorDataset(rows, rows.sum(1, keepdim=True))
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=8, sampler=sampler)
for _ in range(3):
    for inputs, targets in loader:
        (model(inputs) - targets).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
