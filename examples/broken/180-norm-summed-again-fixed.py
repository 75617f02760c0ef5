# The right twin of 180-norm-summed-again.py: each rank takes the norm of the gradient that it has.
# run: torchrun --nproc-per-node 2 examples/broken/180-norm-summed-again-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def clip(parameters, most):
    gradients = [one.grad for one in parameters if one.grad is not None]
    total = torch.stack([one.norm() for one in gradients]).square().sum()
    scale = (most / (total.sqrt() + 1e-6)).clamp(max=1.0)
    for one in gradients:
        one.mul_(scale)


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.manual_seed(0)
inputs = torch.randn(2048, 32)
data = TensorDataset(inputs, (inputs @ torch.randn(32, 4)).argmax(dim=1))
loader = DataLoader(data, batch_size=64, sampler=DistributedSampler(data))
layers = nn.Sequential(nn.Linear(32, 256), nn.GELU(), nn.Linear(256, 4))
model = DistributedDataParallel(layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for given, labels in loader:
    optimizer.zero_grad()
    cross_entropy(model(given), labels).backward()
    clip(model.parameters(), 0.5)
    optimizer.step()
dist.destroy_process_group()
