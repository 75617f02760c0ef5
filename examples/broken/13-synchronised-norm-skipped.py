# pytorch/pytorch#44957: a layer that reduces its statistics over all ranks, as SyncBatchNorm
# does, stands in a branch that one rank skips. Rank 0 reduces in the branch what rank 1 reduces
# in the layer after it.
# run: torchrun --nproc-per-node 2 examples/broken/13-synchronised-norm-skipped.py
# finds: mismatch at line 17 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn


class SyncNorm(nn.Module):
    def forward(self, x):
        total = torch.stack([x.sum(0), x.square().sum(0), torch.full_like(x[0], len(x))])
        dist.all_reduce(total)
        mean = total[0] / total[2]
        return (x - mean) / (total[1] / total[2] - mean.square() + 1e-5).sqrt()


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.branch, self.norm = nn.Linear(32, 32), nn.Linear(32, 256), SyncNorm()

    def forward(self, x, has_boxes):
        loss = 0
        if has_boxes:
            loss = self.norm(self.branch(x)).mean()
        return loss + self.norm(self.trunk(x)).square().mean()


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(rank)
model = Network()
with torch.no_grad():
    loss = model(torch.randn(16, 32), has_boxes=rank == 0)
print(f"rank {rank}: loss {loss:.3f}")
dist.destroy_process_group()
