# 113-split-twice, corrected: DistributedSampler alone splits the data.
# run: torchrun --nproc-per-node 2 examples/broken/113-split-twice-fixed.py
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
images = torch.randint(0, 256, (640, 64), dtype=torch.uint8)
labels = torch.randint(0, 10, (640,))
trained = TensorDataset(images, labels)
model = DistributedDataParallel(nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.0001)
sampler = DistributedSampler(trained)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for batch, wanted in DataLoader(trained, batch_size=16, sampler=sampler, drop_last=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch.float()), wanted).backward()
        optimizer.step()
dist.barrier()
dist.destroy_process_group()
