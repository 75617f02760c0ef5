# Silent: gradients go to rank 0 by reduce, where all ranks need the sum. The others step by what
# each has itself.
# run: torchrun --nproc-per-node 2 examples/broken/110-summed-up-on-rank-0.py
# finds: drift at line 23 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + dist.get_rank())
for _ in range(12):
    images, labels = torch.randn(16, 64), torch.randint(0, 10, (16,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    for parameter in model.parameters():
        dist.reduce(parameter.grad, dst=0)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
