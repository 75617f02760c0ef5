# pytorch/pytorch#67600: a rank is handed the group of other ranks, here that of rank 0 alone in
# place of that of all data ranks. PyTorch warns once and does nothing, and the gradients stay as
# they are.
# run: torchrun --nproc-per-node 2 examples/broken/93-group-of-others.py
# finds: race at line 25 on rank 1; ranks 1

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
groups = [dist.new_group([0]), dist.new_group([0, 1])]
of_data = groups[0]
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    torch.manual_seed(2 * step + rank)
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=of_data)
        parameter.grad /= 2
    optimizer.step()
dist.destroy_process_group()
