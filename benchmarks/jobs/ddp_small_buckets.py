"""DDP with a bucket for each layer."""

import torch
from job import Job, layers, noise
from torch.nn.parallel import DistributedDataParallel

job = Job(rows=128)
model = DistributedDataParallel(layers(512, 8), bucket_cap_mb=1)
optimizer = torch.optim.AdamW(model.parameters())
for _ in job.steps():
    batch = noise(job, 512)
    (model(batch) - batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
job.end()
