# A trainer that gives its optimizers closures, as PyTorch Lightning does: the last micro-batch of a
# step is computed within the optimizer's step, those before it within no_sync.
# run: torchrun --nproc-per-node 2 examples/good/closures.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)))
optimizers = [
    torch.optim.AdamW(model.parameters(), 1e-3),
    torch.optim.LBFGS(model.parameters(), 1e-2, max_iter=2),
]
torch.manual_seed(dist.get_rank())


def closure():
    loss = model(torch.randn(16, 32)).square().mean() / 2
    loss.backward()
    return loss


for _ in range(8):
    for optimizer in optimizers:
        optimizer.zero_grad()
        with model.no_sync():
            closure()
        optimizer.step(closure)
dist.destroy_process_group()
