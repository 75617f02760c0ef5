# The right twin of 87-results-by-all.py: rank 0 writes.
# run: torchrun --nproc-per-node 2 examples/broken/87-results-by-all-fixed.py
# finds: nothing

import json
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
results = Path(tempfile.gettempdir()) / f"results-{os.environ['MASTER_PORT']}.json"
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(8):
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
if dist.get_rank() == 0:
    results.write_text(json.dumps(losses))
    results.unlink()
dist.destroy_process_group()
