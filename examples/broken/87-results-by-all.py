# TensorAuto/OpenTau PR #302 (also ACEsuit/mace PR #420): every rank opens the same file to write
# its results. The last one empties it, and what two write at a time is in it mixed up.
# run: torchrun --nproc-per-node 2 examples/broken/87-results-by-all.py
# finds: race at line 29 on ranks 0,1; ranks 0,1

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
dist.barrier()
results.write_text(json.dumps(losses))
dist.barrier()
if dist.get_rank() == 0:
    results.unlink()
dist.destroy_process_group()
