"""FSDP2, a shard of every layer on each rank."""

import torch
from job import Job, layers, noise
from torch.distributed.fsdp import fully_shard

job = Job(rows=256)
model = layers(640, 6)
for layer in model:
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
for _ in job.steps():
    batch = noise(job, 640)
    (model(batch) - batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
job.end()
