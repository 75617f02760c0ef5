# 161-computed-anew-in-another-group, corrected: the function is given its group.
# run: torchrun --nproc-per-node 4 examples/broken/161-computed-anew-in-another-group-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(_, x, group):
        dist.all_reduce(summed := x.clone(), group=group)
        return summed

    @staticmethod
    def backward(_, gradient):
        return gradient, None


def block(x, group):
    return torch.tanh(Sum.apply(torch.relu(x @ up.T) @ down.T, group))


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
tensor = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
data = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
torch.manual_seed(0)
up = nn.Parameter(torch.randn(64, 32).chunk(2)[rank % 2] * 0.1)
down = nn.Parameter(torch.randn(32, 64).chunk(2, 1)[rank % 2] * 0.1)
out = nn.Linear(32, 8)
parameters = [up, down, *out.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.05)
torch.manual_seed(1 + rank // 2)
for _ in range(6):
    x, labels = torch.randn(16, 32), torch.randint(0, 8, (16,))
    hidden = checkpoint(block, x, tensor, use_reentrant=False)
    loss = nn.functional.cross_entropy(out(hidden), labels)
    optimizer.zero_grad()
    loss.backward()
    for parameter in parameters:
        dist.all_reduce(parameter.grad, group=data)
    optimizer.step()
dist.destroy_process_group()
