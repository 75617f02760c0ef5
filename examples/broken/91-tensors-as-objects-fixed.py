# The right twin of 91-tensors-as-objects.py: each rank sums up its own, and the sums are summed up
# at the end.
# run: torchrun --nproc-per-node 2 examples/broken/91-tensors-as-objects-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(64, 2000))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
likely = torch.zeros(2000)
for _ in range(16):
    logits = model(torch.randn(256, 64))
    optimizer.zero_grad()
    logits.square().mean().backward()
    optimizer.step()
    likely += logits.detach().mean(0)
dist.all_reduce(likely)
dist.destroy_process_group()
