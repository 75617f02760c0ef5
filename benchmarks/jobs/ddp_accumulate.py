"""DDP that accumulates four micro-batches, and sums up its loss."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from job import Job, layers, noise
from torch.nn.parallel import DistributedDataParallel

job = Job(rows=64)
model = DistributedDataParallel(layers(512, 6))
optimizer = torch.optim.AdamW(model.parameters())
for _ in job.steps():
    whole = torch.zeros(())
    for micro in range(4):
        batch = noise(job, 512)
        with model.no_sync() if micro < 3 else nullcontext():
            loss = (model(batch) - batch).square().mean()
            loss.backward()
        whole += loss.detach()
    optimizer.step()
    optimizer.zero_grad()
    dist.all_reduce(whole)
job.end()
