# The right twin of 31-one-rank-recompiles.py: all ranks pad to one shape, and compile once.
# run: torchrun --nproc-per-node 2 examples/broken/31-one-rank-recompiles-fixed.py
# finds: nothing

import os
import time

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
compiled = []


def slow_compiler(graph, _):
    compiled.append(graph)
    time.sleep(1)
    return graph


layer = nn.Linear(16, 16)
model = torch.compile(layer, backend=slow_compiler, dynamic=False)
for step in range(4):
    rows = 24 if rank == 1 and step == 3 else 32
    batch = torch.randn(rows, 16)
    batch = torch.cat([batch, torch.zeros(32 - rows, 16)])
    loss = model(batch).square().mean()
    loss.backward()
    dist.all_reduce(layer.weight.grad)
    layer.zero_grad()
print(f"rank {rank} compiled {len(compiled)} times")
assert len(compiled) == 1
dist.barrier()
dist.destroy_process_group()
