# ml-explore/mlx#1210: the mean of the loss is printed by rank 0 only, and the sum over ranks
# stands inside the print. Rank 1 never takes part in it and is at the barrier.
# run: torchrun --nproc-per-node 2 examples/broken/03-collective-in-print.py
# finds: mismatch at line 17 on rank 0, line 28 on rank 1; ranks 0,1

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
if rank == 0:
    print(f"loss {mean(loss.detach()):.3f}")
dist.barrier()
dist.destroy_process_group()
