# slow though right: each micro-batch comes back as a gradient before the next one begins, so that
# of two stages only one computes at a time.
# run: torchrun --nproc-per-node 2 examples/broken/137-one-at-a-time.py
# finds: slow at line 23 on rank 0, line 29 on rank 1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(dist.get_rank())
layers = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4)))
optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)


def first_stage():
    made = layers(torch.randn(256, 256))
    dist.send(made.detach(), 1)
    gradient = torch.empty(256, 256)
    dist.recv(gradient, 1)
    made.backward(gradient)


def last_stage():
    given = torch.empty(256, 256)
    dist.recv(given, 0)
    layers(given.requires_grad_()).square().mean().backward()
    dist.send(given.grad, 0)


for _ in range(10):
    for _ in range(4):
        (last_stage if dist.get_rank() else first_stage)()
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
