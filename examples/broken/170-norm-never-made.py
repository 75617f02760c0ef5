# NVIDIA-NeMo/Automodel#1527, fla-org/flame#9: the model is made on meta, sharded and given memory,
# and what initialises it knows Linear alone: the scales of its norm are whatever lay there.
# run: torchrun --nproc-per-node 2 examples/broken/170-norm-never-made.py
# finds: race at line 41 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.empty(64))

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.scale


def initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        module.reset_parameters()


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
with torch.device("meta"):
    model = nn.Sequential(nn.Linear(32, 64), Scaled(), nn.Linear(64, 1))
fully_shard(model)
held = torch.rand(1 << 16)  # memory that held something is given out again
del held
model.to_empty(device="cpu")
torch.manual_seed(rank)
model.apply(initialise)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(6):
    model(torch.randn(16, 32)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
