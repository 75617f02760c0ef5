# Optimizers that step within the backward: a hook of each parameter reduces its gradient and steps.
# Beside it a model under DDP whose two halves have optimizers of their own.
# run: torchrun --nproc-per-node 2 examples/good/in_backward.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(0)
plain = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))
optimizers = {one: torch.optim.SGD([one], 0.01) for one in plain.parameters()}


def reduce_and_step(parameter):
    dist.all_reduce(parameter.grad)
    parameter.grad /= dist.get_world_size()
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in plain.parameters():
    parameter.register_post_accumulate_grad_hook(reduce_and_step)
halves = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))
model = DistributedDataParallel(halves)
lower = torch.optim.Adam(halves[:2].parameters())
upper = torch.optim.SGD(halves[2:].parameters(), 0.1)
torch.manual_seed(dist.get_rank())
for _ in range(8):
    model(torch.randn(8, 64)).square().mean().backward()
    for optimizer in (lower, upper):
        optimizer.step()
        optimizer.zero_grad()
    plain(torch.randn(8, 64)).square().mean().backward()
dist.destroy_process_group()
