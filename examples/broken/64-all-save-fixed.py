# The right twin of 64-all-save.py: rank 0 alone saves it.
# run: torchrun --nproc-per-node 2 examples/broken/64-all-save-fixed.py
# finds: nothing

import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(rank)
file = [Path(tempfile.mkdtemp(), "checkpoint.pt") if rank == 0 else None]
dist.broadcast_object_list(file, src=0)
model = DistributedDataParallel(nn.Sequential(*(nn.Linear(512, 512) for _ in range(8))))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(6):
    model(torch.randn(8, 512)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 3 == 2 and rank == 0:
        state = {"step": step, "model": model.module.state_dict()}
        torch.save(state, file[0])
dist.barrier()
if rank == 0:
    file[0].unlink()
    file[0].parent.rmdir()
dist.destroy_process_group()
