# The right twin of 88-workers-started-anew.py: the workers stay.
# run: torchrun --nproc-per-node 2 examples/broken/88-workers-started-anew-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
data = TensorDataset(torch.randn(64, 32, generator=torch.Generator().manual_seed(0)))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=2, persistent_workers=True)
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(20):
    sampler.set_epoch(epoch)
    for (batch,) in loader:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
