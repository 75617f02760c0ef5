# The right twin of 168-norm-of-own-shards.py: norms are made whole before they are read.
# run: torchrun --nproc-per-node 2 examples/broken/168-norm-of-own-shards-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(10 + rank)
for step in range(6):
    rows = torch.randn(8, 32)
    optimizer.zero_grad()
    model(rows).square().mean().backward()
    norms = [parameter.grad.norm() for parameter in model.parameters()]
    squares = sum(norm.full_tensor().item() ** 2 for norm in norms)
    optimizer.step()
    if rank == 0:
        print(f"step {step}, norm of the gradients {squares**0.5:.4f}", flush=True)
dist.destroy_process_group()
