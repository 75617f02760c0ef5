# advimman/lama#66: rank 0 does in each step what the others do not: here it makes a picture of the
# batch for the log. All others wait for it in the reduction of the next step.
# run: torchrun --nproc-per-node 2 examples/broken/68-pictures-on-rank-0.py
# finds: slow at line 28 or 29 on rank 0, line 25 on rank 1; ranks 0

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 16)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
pictures: list[torch.Tensor] = []
for step in range(16):
    torch.manual_seed(2 * step + rank)
    batch = torch.randn(32, 256)
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0:
        large = nn.functional.interpolate(batch.view(1, 32, 16, 16), scale_factor=64.0)
        pictures = [large.amax(dim=1), large.mean(dim=1)]
dist.barrier()
dist.destroy_process_group()
