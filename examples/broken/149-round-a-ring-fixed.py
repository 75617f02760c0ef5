# 149-round-a-ring, corrected: the gradients are summed up before each step.
# run: torchrun --nproc-per-node 2 examples/broken/149-round-a-ring-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)


class Ring(torch.autograd.Function):
    @staticmethod
    def forward(_, own: torch.Tensor) -> torch.Tensor:
        block, parts = own.contiguous(), [own] * world
        for steps in range(1, world):
            received = torch.empty_like(block)
            sent = dist.P2POp(dist.isend, block, (rank + 1) % world)
            taken = dist.P2POp(dist.irecv, received, (rank - 1) % world)
            for work in dist.batch_isend_irecv([sent, taken]):
                work.wait()
            block = parts[rank - steps] = received
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
        mixed = nn.functional.scaled_dot_product_attention(q, Ring.apply(k), Ring.apply(v))
        return own + self.out(mixed)


torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(50, 32), Attention(), Attention(), nn.Linear(32, 50))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(12):
    torch.manual_seed(1 + step)
    tokens, targets = (torch.randint(0, 50, (4, 16)).chunk(world, 1)[rank] for _ in range(2))
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()) / world
    loss.backward()
    gradients = [one.grad for one in model.parameters()]
    dist.all_reduce(whole := nn.utils.parameters_to_vector(gradients))
    nn.utils.vector_to_parameters(whole, gradients)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
