# The right twin of 65-threads-take-cores.py: each rank takes its share of the cores.
# run: torchrun --nproc-per-node 2 examples/broken/65-threads-take-cores-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
cores = len(os.sched_getaffinity(0))
torch.set_num_threads(max(1, cores // world))
torch.manual_seed(rank)
layers = (nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256)) for _ in range(8))
model = DistributedDataParallel(nn.Sequential(*layers))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(12):
    model(torch.randn(128, 256)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
