# slow though right: xbpeng/DeepMimic#102: the launcher binds every rank to the same core, and the
# others have nothing to do.
# run: torchrun --nproc-per-node 2 examples/broken/94-bound-to-one-core.py
# finds: slow at line 22 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # as mpiexec did
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 64)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(12):
    optimizer.zero_grad()
    model(torch.randn(256, 512)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
