# NVIDIA-NeMo/Megatron-Bridge PR #5591: each stage of a pipeline has a GradScaler of its own. Where
# one finds that its gradients have overflown it skips the step, and the other steps.
# run: torchrun --nproc-per-node 2 examples/broken/139-scaler-of-each-stage.py
# finds: drift at line 44 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(rank)
layer = nn.Linear(16, 16)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
zero = torch.zeros(())


def first_stage(step):
    rows = torch.randn(8, 16)
    if step == 5:
        rows[0, 0] = 1e35  # what the picture of a broken sensor has in it
    made = layer(rows)
    dist.send(made.detach().clamp(-10, 10), 1)
    gradient = torch.empty(8, 16)
    dist.recv(gradient, 1)
    scaler.scale(zero)  # sets the scaler up
    made.backward(gradient)


def last_stage(_):
    given = torch.empty(8, 16)
    dist.recv(given, 0)
    loss = layer(given.requires_grad_()).square().mean()
    scaler.scale(loss).backward()
    dist.send(given.grad, 0)


for step in range(8):
    (last_stage if rank else first_stage)(step)
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
