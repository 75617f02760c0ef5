"""DDP with its usual buckets of 25 MB, and buffers that it broadcasts."""

import torch
from job import Job, layers, noise
from torch import nn
from torch.nn.parallel import DistributedDataParallel

job = Job(rows=256)
model = DistributedDataParallel(nn.Sequential(nn.BatchNorm1d(768), layers(768, 8)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for _ in job.steps():
    batch = noise(job, 768)
    (model(batch) - batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
job.end()
