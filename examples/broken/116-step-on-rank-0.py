# Silent: the optimizer steps on rank 0 alone, as if the others were given its parameters. They have
# the same gradients and stay as they began.
# run: torchrun --nproc-per-node 2 examples/broken/116-step-on-rank-0.py
# finds: drift at line 24 on rank 0; ranks 1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + dist.get_rank())
for _ in range(12):
    images, labels = torch.randn(16, 64), torch.randint(0, 10, (16,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    if dist.get_rank() == 0:
        optimizer.step()
dist.barrier()
dist.destroy_process_group()
