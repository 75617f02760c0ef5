# ByteDance-Seed/VeOmni PR #1115: DDP is given the group of the data axis. Once sequences are spread
# over a second axis that group is each rank alone: no gradient is reduced, and nothing says so.
# run: torchrun --nproc-per-node 2 examples/broken/75-reduced-in-a-part.py
# finds: drift at line 18 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (1, world), mesh_dim_names=("data", "context"))
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(16, 4), process_group=mesh["data"].get_group())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    torch.manual_seed(step)
    positions = torch.randn(8, 16).chunk(world)[rank]
    loss = model(positions).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total, group=mesh["context"].get_group())
    if rank == 0:
        print(f"step {step} loss {total.item() / world:.3f}")
dist.destroy_process_group()
