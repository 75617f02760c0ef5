"""Gradients that the script reduces itself: all at once, each with a handle to wait for."""

import torch
import torch.distributed as dist
from job import Job, layers, noise

job = Job(rows=256)
model = layers(640, 6)
optimizer = torch.optim.AdamW(model.parameters())
for _ in job.steps():
    batch = noise(job, 640)
    (model(batch) - batch).square().mean().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    works = [dist.all_reduce(gradient, async_op=True) for gradient in gradients]
    for work, gradient in zip(works, gradients, strict=True):
        work.wait()
        gradient.div_(job.ranks)
    optimizer.step()
    optimizer.zero_grad()
job.end()
