# The right twin of 71-group-in-each-step.py: the layer makes its group once.
# run: torchrun --nproc-per-node 2 examples/broken/71-group-in-each-step-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class SynchronisedNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.group = dist.new_group()

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        moments = torch.stack([batch.mean(0), batch.square().mean(0)]).detach()
        dist.all_reduce(moments, group=self.group)
        mean, square = moments / dist.get_world_size()
        return (batch - mean) / (square - mean.square() + 1e-5).sqrt()


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 64), SynchronisedNorm(), nn.Linear(64, 64))
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(rank)
batch = torch.randn(16, 64)
for _ in range(20):
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
