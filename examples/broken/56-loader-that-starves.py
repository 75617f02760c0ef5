# slow though right: each batch is read in the step's own process, and the step waits for it
# longer than it computes.
# run: torchrun --nproc-per-node 2 examples/broken/56-loader-that-starves.py
# finds: slow at line 29 or 31 on ranks 0,1; ranks 0,1

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
        time.sleep(0.01)
        return torch.full((512,), float(index % 7))


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
model = DistributedDataParallel(nn.Sequential(*(nn.Linear(512, 512) for _ in range(12))))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
data = OnSlowDisk()
loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
steps = 0
for batch in loader:
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    steps += 1
assert steps == 20
dist.barrier()
dist.destroy_process_group()
