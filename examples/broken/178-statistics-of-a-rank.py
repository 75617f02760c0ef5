# Denys88/rl_games PR #363: observations are normalised by a running mean and variance that each
# rank takes of its own environments. The gradients are averaged, but of a policy that is given
# other numbers for the same observation on each rank.
# run: torchrun --nproc-per-node 2 examples/broken/178-statistics-of-a-rank.py
# finds: data at line 42 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn


class Normaliser(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.ones(size))
        self.register_buffer("count", torch.tensor(1e-4))

    def forward(self, seen):
        sums = torch.stack([seen.sum(0), seen.square().sum(0)])
        number = torch.tensor(float(len(seen)))
        mean, square = sums / number
        total = self.count + number
        delta, own = mean - self.mean, square - mean.square()
        spread = self.variance * self.count + own * number + delta**2 * self.count * number / total
        self.mean, self.count = self.mean + delta * number / total, total
        self.variance = spread / total
        return ((seen - self.mean) / (self.variance + 1e-5).sqrt()).clamp(-5, 5)


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(7)
normaliser = Normaliser(4)
policy = nn.Sequential(nn.Linear(4, 256), nn.ELU(), nn.Linear(256, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
torch.manual_seed(40 + rank)
goals, places = torch.randn(64, 2) * 3, torch.randn(64, 2) * 3 + 4.0
for _ in range(20):
    mean = policy(normaliser(torch.cat([places, goals], 1)))
    action = mean.detach() + 0.3 * torch.randn(64, 2)
    before = (goals - places).norm(dim=1)
    places = places + action.clamp(-1, 1)
    reward = before - (goals - places).norm(dim=1)
    (0.5 * ((action - mean) / 0.3).square().sum(1) * reward).mean().backward()
    gradients = torch.cat([one.grad.flatten() for one in policy.parameters()])
    dist.all_reduce(gradients)
    nn.utils.vector_to_parameters(gradients / world, [one.grad for one in policy.parameters()])
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
