# 102-shards-of-each-part, corrected: the last micro-batch alone is reduced.
# run: torchrun --nproc-per-node 2 examples/broken/102-shards-of-each-part-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
rank = dist.get_rank()
torch.manual_seed(0)
layers = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in range(6)))
for layer in layers:
    fully_shard(layer)
fully_shard(layers)
optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-3)
torch.manual_seed(1 + rank)
for _ in range(8):
    optimizer.zero_grad()
    for part in range(4):
        layers.set_requires_gradient_sync(part == 3)
        (layers(torch.randn(32, 512)).square().mean() / 4).backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
