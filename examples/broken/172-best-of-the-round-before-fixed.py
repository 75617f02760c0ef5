# The right twin of 172-best-of-the-round-before.py: a barrier follows each save.
# run: torchrun --nproc-per-node 2 examples/broken/172-best-of-the-round-before-fixed.py
# finds: nothing

import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def save() -> None:
    if rank == 0:
        time.sleep(0.3)  # the disk is slow
        torch.save(model.module.state_dict(), best)
    dist.barrier()


def evaluated() -> float:
    saved.load_state_dict(torch.load(best, weights_only=True))
    with torch.no_grad():
        return float(saved(torch.ones(8, 32)).square().mean())


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
shared = [tempfile.mkdtemp() if rank == 0 else ""]
dist.broadcast_object_list(shared)
best = Path(shared[0]) / "best.pt"
torch.manual_seed(0)
model, saved = DistributedDataParallel(nn.Linear(32, 1)), nn.Linear(32, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
torch.manual_seed(10 + rank)
save()
evaluated()
for _ in range(4):
    for _ in range(3):
        model(torch.randn(8, 32)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    save()
    evaluated()
    dist.barrier()
dist.destroy_process_group()
