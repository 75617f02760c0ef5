"""Tensor parallelism: every other layer is cut by columns, the next by rows."""

import torch
from job import Job, noise
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

job = Job(rows=256)
mesh = init_device_mesh("cpu", (job.ranks,), mesh_dim_names=("tp",))
model = nn.Sequential(*(nn.Linear(768, 768) for _ in range(8)))
plan = {str(at): RowwiseParallel() if at % 2 else ColwiseParallel() for at in range(8)}
model = parallelize_module(model, mesh, plan)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in job.steps():
    torch.manual_seed(0)  # all ranks have one batch
    batch = noise(job, 768)
    (model(batch) - batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
job.end()
