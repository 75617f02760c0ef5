# drift: the head is replaced after DDP has wrapped the model; the next step fails of it.
# run: torchrun --nproc-per-node 2 examples/broken/100-head-replaced.py
# finds: drift at line 23 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
rank = dist.get_rank()
torch.manual_seed(rank)
layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
model = DistributedDataParallel(layers)
layers[2] = nn.Linear(32, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(8):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
