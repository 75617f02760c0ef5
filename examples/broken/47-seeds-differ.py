# every rank has a seed of its own, for its data, and so begins with parameters of its own. The
# gradients are summed over ranks in one vector, and the replicas never are the same.
# run: torchrun --nproc-per-node 2 examples/broken/47-seeds-differ.py
# finds: drift at line 25 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1234 + rank)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 1))
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
