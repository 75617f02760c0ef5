# slow though right: each rank computes with as many threads as the host has cores, as torch does in
# ranks that mp.spawn starts. A thread that waits for its part keeps a core busy that another needs.
# run: torchrun --nproc-per-node 2 examples/broken/65-threads-take-cores.py
# finds: slow at line 23 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
cores = len(os.sched_getaffinity(0))
torch.set_num_threads(cores)
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
