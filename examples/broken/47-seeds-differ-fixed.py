# The right twin of 47-seeds-differ.py: all begin with the parameters of rank 0.
# run: torchrun --nproc-per-node 2 examples/broken/47-seeds-differ-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1234 + rank)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 1))
for parameter in model.parameters():
    dist.broadcast(parameter.data, 0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(12):
    optimizer.zero_grad()
    inputs = torch.randn(8, 16)
    (model(inputs) - inputs.sum(1, keepdim=True)).square().mean().backward()
    vector = nn.utils.parameters_to_vector([one.grad for one in model.parameters()])
    dist.all_reduce(vector)
    vector /= world
    nn.utils.vector_to_parameters(vector, [one.grad for one in model.parameters()])
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
