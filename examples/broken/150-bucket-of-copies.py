# kiankyars/microddp, src/bucketing.py: a bucket keeps each gradient until the last is made, so
# autograd copies it into grad. The sums reach the bucket's tensors, and nobody steps by them.
# run: torchrun --nproc-per-node 2 examples/broken/150-bucket-of-copies.py
# finds: drift at line 43 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    """Reduces all gradients in one call, once the last of them is made."""

    def __init__(self, parameters):
        self.parameters, self.gradients = list(parameters), []
        for parameter in self.parameters:
            parameter.register_hook(self.collect)

    def collect(self, gradient):
        self.gradients.append(gradient)
        if len(self.gradients) == len(self.parameters):
            whole = torch.cat([one.flatten() for one in self.gradients])
            dist.all_reduce(whole)
            whole /= dist.get_world_size()
            parts = whole.split([one.numel() for one in self.gradients])
            for one, part in zip(self.gradients, parts, strict=True):
                one.copy_(part.view_as(one))
            self.gradients.clear()


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(6)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
bucket = Bucket(model.parameters())
torch.manual_seed(1 + dist.get_rank())
for _ in range(12):
    loss = model(torch.randn(16, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # step
dist.destroy_process_group()
