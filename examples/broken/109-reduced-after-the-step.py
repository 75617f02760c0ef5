# Silent: gradients are averaged by hand, after the step that should have used them. The next
# backward makes new ones, and every rank trains a model of its own.
# run: torchrun --nproc-per-node 2 examples/broken/109-reduced-after-the-step.py
# finds: drift at line 24 on ranks 0,1; ranks 0,1

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
    optimizer.step()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
dist.barrier()
dist.destroy_process_group()
