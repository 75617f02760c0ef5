"""PyTorch's own pipeline, a stage a rank, in the order 1F1B."""

import torch
from job import Job, layers
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

MICRO, WIDTH = 4, 512
job = Job(rows=512)
part = layers(WIDTH, 6)
stage = PipelineStage(part, job.rank, job.ranks, torch.device("cpu"))
schedule = Schedule1F1B(stage, MICRO, loss_fn=lambda out, aim: (out - aim).square().mean())
optimizer = torch.optim.SGD(part.parameters(), lr=0.01)
batch = torch.randn(job.rows, WIDTH)
for _ in job.steps():
    if job.rank == 0:
        schedule.step(batch)
    else:
        schedule.step(target=batch, losses=[])
    optimizer.step()
    optimizer.zero_grad()
job.end()
