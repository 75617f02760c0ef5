"""Blocks that go round a ring while each rank works on the one it has, as in ring attention."""

import torch
import torch.distributed as dist
from job import Job, noise
from torch import nn

WIDTH, TURNS = 512, 4
job = Job(rows=512)
model = nn.Linear(WIDTH, WIDTH)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in job.steps():
    block, arriving = noise(job, WIDTH), torch.empty(job.rows, WIDTH)
    loss = torch.zeros(())
    for _ in range(TURNS):
        there, here = (job.rank + 1) % job.ranks, (job.rank - 1) % job.ranks
        both = [dist.P2POp(dist.isend, block, there), dist.P2POp(dist.irecv, arriving, here)]
        works = dist.batch_isend_irecv(both)
        loss = loss + model(block).square().mean()
        for work in works:
            work.wait()
        block, arriving = arriving.clone(), torch.empty(job.rows, WIDTH)
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
job.end()
