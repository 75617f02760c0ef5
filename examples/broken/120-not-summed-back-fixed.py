# 120-not-summed-back, corrected: the input of a shared layer sums up its gradient.
# run: torchrun --nproc-per-node 2 examples/broken/120-not-summed-back-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)


class Share(torch.autograd.Function):
    @staticmethod
    def forward(_, whole):
        return whole.view_as(whole)

    @staticmethod
    def backward(_, gradient):
        dist.all_reduce(gradient := gradient.clone())
        return gradient


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(_, part):
        dist.all_reduce(whole := part.clone())
        return whole

    @staticmethod
    def backward(_, gradient):
        return gradient


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.up, self.down = (nn.Parameter(torch.randn(64, 32)[rank::world] / 8) for _ in range(2))

    def forward(self, whole):
        wide = Share.apply(self.norm(whole)) @ self.up.T
        return whole + Sum.apply(wide.relu() @ self.down)


model = nn.Sequential(nn.Embedding(50, 32), Block(), Block(), nn.Linear(32, 50))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(12):
    torch.manual_seed(1 + step)
    tokens, targets = torch.randint(0, 50, (4, 8)), torch.randint(0, 50, (4, 8))
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
