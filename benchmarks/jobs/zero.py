"""DDP with an optimizer whose state is sharded: parameters are broadcast after the update."""

import torch
from job import Job, layers, noise
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

job = Job(rows=192)
model = DistributedDataParallel(layers(512, 8))
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
for _ in job.steps():
    batch = noise(job, 512)
    (model(batch) - batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
job.end()
