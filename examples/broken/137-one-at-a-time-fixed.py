# 137-one-at-a-time, corrected: all micro-batches go forward before the first gradient comes back.
# run: torchrun --nproc-per-node 2 examples/broken/137-one-at-a-time-fixed.py
# finds: nothing

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
    made = [layers(torch.randn(256, 256)) for _ in range(4)]
    sent = [dist.isend(one.detach(), 1) for one in made]
    for one, message in zip(made, sent, strict=True):
        gradient = torch.empty(256, 256)
        dist.recv(gradient, 1)
        one.backward(gradient)
        message.wait()


def last_stage():
    for _ in range(4):
        given = torch.empty(256, 256)
        dist.recv(given, 0)
        layers(given.requires_grad_()).square().mean().backward()
        dist.send(given.grad, 0)


for _ in range(10):
    (last_stage if dist.get_rank() else first_stage)()
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
