# Silent: DDP has the body of the model, and the head beside it is trained by the same optimizer.
# Each rank's head learns from its own batches alone.
# run: torchrun --nproc-per-node 2 examples/broken/115-head-beside-ddp.py
# finds: drift at line 24 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
body = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU()))
head = nn.Linear(256, 10)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.05)
torch.manual_seed(1 + dist.get_rank())
for _ in range(12):
    images, labels = torch.randn(16, 64), torch.randint(0, 10, (16,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(head(body(images)), labels).backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
