# slow though right: after each step rank 0 sends its parameters to all others, to be sure. They
# have the same ones: all have stepped by the same gradients.
# run: torchrun --nproc-per-node 2 examples/broken/92-broadcast-though-equal.py
# finds: slow at line 24 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1 + dist.get_rank())
for _ in range(16):
    optimizer.zero_grad()
    model(torch.randn(16, 256)).square().mean().backward()
    optimizer.step()
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
dist.barrier()
dist.destroy_process_group()
