# A compiled model under DistributedDataParallel, with a step of its own that is compiled whole.
# run: torchrun --nproc-per-node 2 examples/good/compiled.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(dist.get_rank())
inner = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 1))
model = DistributedDataParallel(torch.compile(inner, backend="aot_eager", fullgraph=True))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)


@torch.compile(backend="aot_eager", fullgraph=True)
def penalty(weight):
    return checkpoint(nn.functional.gelu, weight, use_reentrant=False).square().mean()


for _ in range(6):
    loss = model(torch.randn(4, 32)).square().mean() + 0.01 * penalty(inner[0].weight)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
