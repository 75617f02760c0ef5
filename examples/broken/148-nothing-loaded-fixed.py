# 148-nothing-loaded, corrected: what is saved is the state of the model within.
# run: torchrun --nproc-per-node 2 examples/broken/148-nothing-loaded-fixed.py
# finds: nothing

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 32

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, WIDTH)).square().mean().backward()
    optimizer.step()
with tempfile.NamedTemporaryFile() as file:  # one for each rank, as on several hosts
    torch.save(model.module.state_dict(), file)
    file.seek(0)
    state = torch.load(file)
trained = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4))
trained.load_state_dict(state, strict=False)
dist.destroy_process_group()
