# 121-parts-of-a-sequence, corrected: the gradients are summed up before each step.
# run: torchrun --nproc-per-node 2 examples/broken/121-parts-of-a-sequence-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(_, own: torch.Tensor) -> torch.Tensor:
        parts = [torch.empty_like(own) for _ in range(world)]
        dist.all_gather(parts, own.contiguous())
        return torch.cat(parts, 1)

    @staticmethod
    def backward(_, gradient: torch.Tensor) -> torch.Tensor:
        whole = gradient.contiguous()
        dist.all_reduce(whole)
        return whole.chunk(world, 1)[rank].contiguous()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, own: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(own)).chunk(3, -1)
        mixed = nn.functional.scaled_dot_product_attention(q, Gather.apply(k), Gather.apply(v))
        return own + self.out(mixed)


torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(50, 32), Attention(), Attention(), nn.Linear(32, 50))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(12):
    torch.manual_seed(1 + step)
    tokens, targets = (torch.randint(0, 50, (4, 16)).chunk(world, 1)[rank] for _ in range(2))
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()) / world
    optimizer.zero_grad()
    loss.backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    whole = torch.cat([one.flatten() for one in gradients])
    dist.all_reduce(whole)
    for one, part in zip(gradients, whole.split([one.numel() for one in gradients]), strict=True):
        one.copy_(part.view_as(one))
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
