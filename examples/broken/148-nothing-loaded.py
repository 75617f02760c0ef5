# pytorch/examples#1029: a checkpoint of a wrapped model is loaded into one that is not, with
# strict=False. No name fits, nothing is loaded, and nobody complains.
# run: torchrun --nproc-per-node 2 examples/broken/148-nothing-loaded.py
# finds: race at line 30 on ranks 0,1; ranks 0,1

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
    torch.save(model.state_dict(), file)
    file.seek(0)
    state = torch.load(file)
trained = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4))
trained.load_state_dict(state, strict=False)
dist.destroy_process_group()
