# lightly-ai/lightly#1528: features are gathered by a function whose backward keeps the own part of
# the gradient. Each rank has a loss of its own, and what it computes from the others' features
# teaches them nothing.
# run: torchrun --nproc-per-node 2 examples/broken/122-gathered-one-way.py
# finds: drift at line 23 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(_, own: torch.Tensor) -> torch.Tensor:
        parts = [torch.empty_like(own) for _ in range(world)]
        dist.all_gather(parts, own.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(_, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.chunk(world)[rank].clone()


torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + rank)
for _ in range(12):
    images = torch.randn(8, 64)
    views = torch.cat([images, images + 0.1 * torch.randn(8, 64)])
    one, other = nn.functional.normalize(model(views), dim=1).chunk(2)
    alike = 10 * one @ Gather.apply(other).T
    loss = nn.functional.cross_entropy(alike, 8 * rank + torch.arange(8))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
