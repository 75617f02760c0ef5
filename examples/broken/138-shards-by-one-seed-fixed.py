# 138-shards-by-one-seed, corrected: each rank keeps its part of weights that all have drawn.
# run: torchrun --nproc-per-node 2 examples/broken/138-shards-by-one-seed-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn


class Sum(torch.autograd.Function):
    """Sums up what all ranks have made; its gradient is that of each part."""

    @staticmethod
    def forward(_ctx, part):
        whole = part.clone()
        dist.all_reduce(whole)
        return whole

    @staticmethod
    def backward(_ctx, gradient):
        return gradient


class Halves(nn.Module):
    """Two layers, of whose hidden features each rank has a part."""

    def __init__(self, width, hidden):
        super().__init__()
        up, down = nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)
        rank, world = dist.get_rank(), dist.get_world_size()
        self.up = nn.Parameter(up.weight.detach().chunk(world, dim=0)[rank].clone())
        self.down = nn.Parameter(down.weight.detach().chunk(world, dim=1)[rank].clone())

    def forward(self, rows):
        return Sum.apply((rows @ self.up.T).relu() @ self.down.T)


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
model = Halves(32, 64)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1)  # of the batches, which both halves need
for _ in range(8):
    rows = torch.randn(16, 32)
    optimizer.zero_grad()
    (model(rows) - rows).square().mean().backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
