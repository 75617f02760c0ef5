# karpathy/nanochat PR #857 (also lucidrains/DALLE-pytorch#268): the learning rate follows how far a
# rank is in its own data, and one gets through them faster than another. Gradients are reduced, and
# the ranks take steps of other lengths by them.
# run: torchrun --nproc-per-node 2 examples/broken/78-rates-differ.py
# finds: drift at line 28 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
documents = 0
for step in range(12):
    torch.manual_seed(2 * step + rank)
    documents += 3 + (step + rank) % 2  # as many as fit into one sequence
    for group in optimizer.param_groups:
        group["lr"] = 0.1 * (1 - documents / 60)
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
