# NVIDIA-NeMo/RL#3716 (and NVIDIA/Megatron-LM#7452, number 11): each rank norms its own heads by a
# weight that all have, and nobody sums up the gradients of that weight.
# run: torchrun --nproc-per-node 2 examples/broken/156-norm-of-own-heads.py
# finds: drift at line 48 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x.view_as(x)

    @staticmethod
    def backward(_, gradient):
        dist.all_reduce(summed := gradient.clone())
        return summed


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        dist.all_reduce(summed := x.clone())
        return summed

    @staticmethod
    def backward(_, gradient):
        return gradient


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
make = nn.Parameter(torch.randn(64, 64).chunk(2)[rank] * 0.1)
gather = nn.Parameter(torch.randn(64, 64).chunk(2, 1)[rank] * 0.1)
norm, out = nn.RMSNorm(16), nn.Linear(64, 10)
optimizer = torch.optim.SGD([make, gather, *norm.parameters(), *out.parameters()], lr=0.05)
for _ in range(6):
    x, labels = torch.randn(32, 64), torch.randint(0, 10, (32,))
    heads = norm((Copy.apply(x) @ make.T).unflatten(1, (2, 16)))
    hidden = Sum.apply(heads.flatten(1) @ gather.T)
    optimizer.zero_grad()
    nn.functional.cross_entropy(out(x + hidden), labels).backward()
    optimizer.step()
dist.destroy_process_group()
