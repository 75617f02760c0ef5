# slow though right: all ranks send their gradients to rank 0, which averages them and sends the
# mean back. Rank 0 receives most bytes, and the others wait.
# run: torchrun --nproc-per-node 4 examples/broken/55-all-to-rank-0.py
# finds: slow at line 19 or 22 on ranks 0,1,2,3; ranks 0

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
weight = torch.zeros(300_000)
optimizer = torch.optim.SGD([weight.requires_grad_()], lr=0.01)
gathered = [torch.empty(300_000) for _ in range(world)] if rank == 0 else None
for _ in range(8):
    (weight - rank).square().sum().backward()
    gradient = weight.grad
    dist.gather(gradient, gathered, dst=0)
    if rank == 0:
        gradient.copy_(torch.stack(gathered).mean(0))
    dist.broadcast(gradient, src=0)
    optimizer.step()
    optimizer.zero_grad()
assert torch.allclose(weight[0], torch.tensor(1.5 * (1 - 0.98**8)))
dist.barrier()
dist.destroy_process_group()
