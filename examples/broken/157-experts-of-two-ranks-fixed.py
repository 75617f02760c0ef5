# 157-experts-of-two-ranks, corrected: ranks that have the same expert sum up its gradients.
# run: torchrun --nproc-per-node 4 examples/broken/157-experts-of-two-ranks-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn


def exchange(x: torch.Tensor) -> torch.Tensor:
    got = torch.empty_like(x)
    other = rank ^ 1
    mine, theirs = rank % 2, other % 2
    halves, parts = x.chunk(2), got.chunk(2)
    parts[mine].copy_(halves[mine])
    work = dist.isend(halves[theirs].contiguous(), other)
    dist.recv(parts[theirs], other)
    work.wait()
    return got


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return exchange(x)

    @staticmethod
    def backward(_, gradient):
        return exchange(gradient)


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
same = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
torch.manual_seed(0)
first, last = nn.Linear(32, 32), nn.Linear(32, 8)
torch.manual_seed(1 + rank % 2)
expert = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
dense = [*first.parameters(), *last.parameters()]
optimizer = torch.optim.SGD([*dense, *expert.parameters()], lr=0.05)
torch.manual_seed(10 + rank)
for _ in range(6):
    hidden = first(torch.randn(16, 32))
    out = last(hidden + Exchange.apply(expert(Exchange.apply(hidden))))
    optimizer.zero_grad()
    nn.functional.cross_entropy(out, torch.randint(0, 8, (16,))).backward()
    for parameter in dense:
        dist.all_reduce(parameter.grad)
    for parameter in expert.parameters():
        dist.all_reduce(parameter.grad, group=same)
    optimizer.step()
dist.destroy_process_group()
