# 119-norms-of-parts, corrected: the gradients of the norms are summed up, too.
# run: torchrun --nproc-per-node 2 examples/broken/119-norms-of-parts-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()


def gather(own: torch.Tensor) -> torch.Tensor:
    parts = [torch.empty_like(own) for _ in range(world)]
    dist.all_gather(parts, own.contiguous())
    return torch.cat(parts, 1)


def sum_up(whole: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(whole := whole.clone())
    return whole.chunk(world, 1)[rank].contiguous()


class Move(torch.autograd.Function):
    @staticmethod
    def forward(ctx, given, there, back):
        ctx.back = back
        return there(given)

    @staticmethod
    def backward(ctx, gradient):
        return ctx.back(gradient), None, None


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.up, self.down = (nn.Parameter(torch.randn(64, 32)[rank::world] / 8) for _ in range(2))

    def forward(self, own):
        wide = Move.apply(self.norm(own), gather, sum_up) @ self.up.T
        return own + Move.apply(wide.relu() @ self.down, sum_up, gather)


model = nn.Sequential(nn.Embedding(50, 32), Block(), Block(), nn.Linear(32, 50))
whole = nn.ModuleList([model[0], model[1].norm, model[2].norm, model[3]])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(12):
    torch.manual_seed(1 + step)
    tokens, targets = (torch.randint(0, 50, (4, 16)).chunk(world, 1)[rank] for _ in range(2))
    optimizer.zero_grad()
    (nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()) / world).backward()
    for parameter in whole.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
dist.destroy_process_group()
