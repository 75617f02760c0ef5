# 115-head-beside-ddp, corrected: DDP has both.
# run: torchrun --nproc-per-node 2 examples/broken/115-head-beside-ddp-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
body, head = nn.Sequential(nn.Linear(64, 256), nn.ReLU()), nn.Linear(256, 10)
model = DistributedDataParallel(nn.Sequential(body, head))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + dist.get_rank())
for _ in range(12):
    images, labels = torch.randn(16, 64), torch.randint(0, 10, (16,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
