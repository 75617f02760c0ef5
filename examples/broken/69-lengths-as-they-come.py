# Tencent-Hunyuan/UniRL#45: samples come as they are drawn, and each rank pads its own to the
# longest of them. The rank that has drawn a long one computes, and the others wait.
# run: torchrun --nproc-per-node 3 examples/broken/69-lengths-as-they-come.py
# finds: slow at line 26 on ranks 0,1,2; ranks 0,1,2

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 64)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
lengths = 64 + 16384 * torch.rand(24 * world).pow(3)
for step in range(24):
    tokens = int(lengths[step * world + rank])
    torch.manual_seed(world * step + rank)
    batch = torch.randn(tokens, 64)
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
