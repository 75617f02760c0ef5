# pytorch/pytorch PR #155558 and karpathy/nanochat PR #722: the shape of a batch changes on one
# rank only, whose model is compiled anew while the others wait in the reduction. Nothing hangs:
# it is late, and the watchdog may end the job.
# run: torchrun --nproc-per-node 2 examples/broken/31-one-rank-recompiles.py
# finds: straggler at line 22 or 31 on rank 1; ranks 1

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
    time.sleep(1 if len(compiled) == 1 else 12)  # as inductor takes for a large model
    return graph


layer = nn.Linear(16, 16)
model = torch.compile(layer, backend=slow_compiler, dynamic=False)
for step in range(4):
    rows = 24 if rank == 1 and step == 3 else 32
    batch = torch.randn(rows, 16)
    loss = model(batch).square().mean()
    loss.backward()
    dist.all_reduce(layer.weight.grad)
    layer.zero_grad()
print(f"rank {rank} compiled {len(compiled)} times")
assert len(compiled) == 1 + rank
dist.barrier()
dist.destroy_process_group()
