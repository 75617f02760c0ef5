# The right twin of 90-evaluated-by-all.py: each rank evaluates a part.
# run: torchrun --nproc-per-node 2 examples/broken/90-evaluated-by-all-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
held_out = TensorDataset(torch.randn(8192, 256), torch.randint(10, (8192,)))
part = DistributedSampler(held_out, shuffle=False)
batches = DataLoader(held_out, batch_size=64, sampler=part)
model = DistributedDataParallel(nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
for _ in range(6):
    model.train()
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(16, 256)).square().mean().backward()
        optimizer.step()
    model.eval()
    right = torch.zeros(1)
    with torch.no_grad():
        for batch, label in batches:
            right += (model(batch).argmax(1) == label).sum()
    dist.all_reduce(right)
dist.destroy_process_group()
