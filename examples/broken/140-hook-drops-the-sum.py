# Silent: a hook of each parameter averages its gradient over the ranks, in a copy, and returns
# nothing. Autograd goes on with the gradient as it was, and every rank trains a model of its own.
# run: torchrun --nproc-per-node 2 examples/broken/140-hook-drops-the-sum.py
# finds: drift at line 17 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))


def average(gradient):
    gradient = gradient / dist.get_world_size()
    dist.all_reduce(gradient)


torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
for parameter in model.parameters():
    parameter.register_hook(average)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
for _ in range(8):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
