# The right twin of 03-collective-in-print.py: all ranks sum, then rank 0 prints.
# run: torchrun --nproc-per-node 2 examples/broken/03-collective-in-print-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()


def mean(value):
    total = value.clone()
    dist.all_reduce(total)
    return total / world


weight = torch.ones(100, requires_grad=True)
for _ in range(4):
    loss = (weight * (rank + 1)).sum()
    (gradient,) = torch.autograd.grad(loss, weight)
    weight = (weight - 0.01 * mean(gradient)).detach().requires_grad_()
average = mean(loss.detach())
if rank == 0:
    print(f"loss {average:.3f}")
dist.barrier()
assert torch.allclose(weight, torch.full((100,), 0.94))
dist.destroy_process_group()
