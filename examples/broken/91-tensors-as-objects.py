# slow though right: pytorch/pytorch PR #150815, NVIDIA/Model-Optimizer PR #1111: what all ranks
# have made goes to all of them as Python objects, in each step. Each pickles its tensors, sends how
# long that is, sends it, and unpickles what all have sent.
# run: torchrun --nproc-per-node 2 examples/broken/91-tensors-as-objects.py
# finds: slow at line 27 on ranks 0,1; ranks 0,1

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
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, {"logits": logits.detach()})
    likely += torch.cat([one["logits"] for one in parts]).mean(0)
dist.destroy_process_group()
