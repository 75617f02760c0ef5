# The right twin of 98-reduced-twice.py: DDP alone averages the gradients.
# run: torchrun --nproc-per-node 2 examples/broken/98-reduced-twice-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
layers = (nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 64))
model = DistributedDataParallel(nn.Sequential(*layers))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(1 + dist.get_rank())
for _ in range(16):
    optimizer.zero_grad()
    model(torch.randn(32, 512)).square().mean().backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
