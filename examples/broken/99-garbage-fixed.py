# The right twin of 99-garbage.py: the collector leaves alone what was there before the steps.
# run: torchrun --nproc-per-node 2 examples/broken/99-garbage-fixed.py
# finds: nothing

import gc
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
layers = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
model = DistributedDataParallel(layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(1 + dist.get_rank())
index = [[number, {"tags": [number]}] for number in range(400_000)]
gc.freeze()
gc.disable()
for step in range(30):
    samples = [[number, {"words": [number]}] for number in range(20_000)]
    index[step] = samples[:3]
    optimizer.zero_grad()
    model(torch.randn(32, 256)).square().mean().backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
