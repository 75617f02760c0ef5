# The right twin of 68-pictures-on-rank-0.py: every rank makes the picture of its own batch, and
# that once in a while.
# run: torchrun --nproc-per-node 2 examples/broken/68-pictures-on-rank-0-fixed.py
# finds: nothing

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
    if step % 16 == 15:
        large = nn.functional.interpolate(batch.view(1, 32, 16, 16), scale_factor=64.0)
        pictures = [large.amax(dim=1), large.mean(dim=1)]
dist.barrier()
dist.destroy_process_group()
