# The right twin of 57-received-by-rank-0.py: the gradients are reduced among all ranks.
# run: torchrun --nproc-per-node 4 examples/broken/57-received-by-rank-0-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
weight = torch.zeros(300_000)
optimizer = torch.optim.SGD([weight.requires_grad_()], lr=0.01)
for _ in range(8):
    (weight - rank).square().sum().backward()
    gradient = weight.grad
    dist.all_reduce(gradient)
    gradient /= world
    optimizer.step()
    optimizer.zero_grad()
assert torch.allclose(weight[0], torch.tensor(1.5 * (1 - 0.98**8)))
dist.barrier()
dist.destroy_process_group()
