# InternLM/InternLM PR #405, modelscope/ms-swift PR #7944: every rank draws its columns and rows of
# a tensor-parallel layer by one seed. All have the same ones, and stay so: two ranks learn no more
# than one would.
# run: torchrun --nproc-per-node 2 examples/broken/138-shards-by-one-seed.py
# finds: drift at line 20 on ranks 0,1; ranks 0,1

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
        part = hidden // dist.get_world_size()
        self.up, self.down = nn.Linear(width, part), nn.Linear(part, width, bias=False)

    def forward(self, rows):
        return Sum.apply(self.down(self.up(rows).relu()))


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
