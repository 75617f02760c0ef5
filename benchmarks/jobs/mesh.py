"""Two axes on four ranks: FSDP2 over replicas of a model cut by tensor parallelism."""

import torch
from job import Job, noise
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

job = Job(rows=128)
mesh = init_device_mesh("cpu", (job.ranks // 2, 2), mesh_dim_names=("dp", "tp"))
model = nn.Sequential(*(nn.Linear(640, 640) for _ in range(6)))
plan = {str(at): RowwiseParallel() if at % 2 else ColwiseParallel() for at in range(6)}
model = parallelize_module(model, mesh["tp"], plan)
fully_shard(model, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(model.parameters())
for step in job.steps():
    torch.manual_seed(step)
    batch = noise(job, 640)
    (model(batch) - batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
job.end()
