# Sharpness-aware minimisation: a first backward says where the loss is worst nearby, a second one,
# from there, which way to go. Both are reduced; the gradients of neither are added to the other.
# run: torchrun --nproc-per-node 4 examples/good/sharpness.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    torch.manual_seed(2 * step + rank)
    batch = torch.randn(8, 32)
    model(batch).square().mean().backward()
    gradients = [one.grad for one in model.parameters() if one.grad is not None]
    length = torch.stack([one.norm() for one in gradients]).norm() + 1e-9
    changes = [0.05 * one / length for one in gradients]
    optimizer.zero_grad()
    with torch.no_grad():
        torch._foreach_add_(list(model.parameters()), changes)
    model(batch).square().mean().backward()
    with torch.no_grad():
        torch._foreach_sub_(list(model.parameters()), changes)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
