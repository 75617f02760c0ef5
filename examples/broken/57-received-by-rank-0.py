# slow though right: rank 0 receives the gradients of the others one by one, averages them and
# sends the mean back, as a first program by hand does. Rank 0 receives most bytes.
# run: torchrun --nproc-per-node 4 examples/broken/57-received-by-rank-0.py
# finds: slow at line 21 on ranks 0,1,2,3; ranks 0

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
    if rank == 0:
        received = torch.empty_like(gradient)
        for source in range(1, world):
            dist.recv(received, src=source)
            gradient += received
        gradient /= world
        for other in range(1, world):
            dist.send(gradient, dst=other)
    else:
        dist.send(gradient, dst=0)
        dist.recv(gradient, src=0)
    optimizer.step()
    optimizer.zero_grad()
assert torch.allclose(weight[0], torch.tensor(1.5 * (1 - 0.98**8)))
dist.barrier()
dist.destroy_process_group()
