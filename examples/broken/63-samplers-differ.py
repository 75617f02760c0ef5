# NVlabs/LongLive#71: each rank shuffles by a seed of its own and then takes its part. The parts are
# of different orders: some samples are in several of them, and some in none.
# run: torchrun --nproc-per-node 2 examples/broken/63-samplers-differ.py
# finds: data at line 24 on ranks 0,1; ranks 0,1

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
sampler = DistributedSampler(dataset, seed=1234 + dist.get_rank())
loader = DataLoader(dataset, batch_size=8, sampler=sampler)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for inputs, targets in loader:
        (model(inputs) - targets).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
