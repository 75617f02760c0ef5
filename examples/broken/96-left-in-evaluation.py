# drift: rank 0 validates after each epoch and trains on in evaluation mode, without dropout.
# run: torchrun --nproc-per-node 2 examples/broken/96-left-in-evaluation.py
# finds: drift at line 24 on rank 0; ranks 0

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
rank = dist.get_rank()
torch.manual_seed(0)
layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 1))
model = DistributedDataParallel(layers)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1 + rank)
held_out = torch.randn(64, 32)
for _ in range(3):
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(16, 32)).square().mean().backward()
        optimizer.step()
    if rank == 0:
        model.eval()
        with torch.no_grad():
            error = model.module(held_out).square().mean().item()
        print(f"{error:.4f}")
dist.barrier()
dist.destroy_process_group()
