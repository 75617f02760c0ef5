# The right twin of 56-loader-that-starves.py: workers read ahead.
# run: torchrun --nproc-per-node 2 examples/broken/56-loader-that-starves-fixed.py
# finds: nothing

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class OnSlowDisk(Dataset):
    def __len__(self):
        return 320

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((512,), float(index % 7))


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
model = DistributedDataParallel(nn.Sequential(*(nn.Linear(512, 512) for _ in range(12))))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
data = OnSlowDisk()
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=2, prefetch_factor=8)
steps = 0
for batch in loader:
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    steps += 1
assert steps == 20
dist.barrier()
dist.destroy_process_group()
