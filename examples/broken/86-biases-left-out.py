# bigscience-workshop/Megatron-DeepSpeed PR #307: the loop that averages gradients takes the weights
# and leaves the biases out. Ranks begin with the same ones and part in the first step.
# run: torchrun --nproc-per-node 2 examples/broken/86-biases-left-out.py
# finds: drift at line 26 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
weights = [one for one in model.parameters() if one.ndim > 1]
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(8):
    torch.manual_seed(2 * step + rank)
    optimizer.zero_grad()
    model(torch.randn(8, 32)).square().mean().backward()
    sums = [dist.all_reduce(one.grad, async_op=True) for one in weights]
    for weight, handle in zip(weights, sums, strict=True):
        handle.wait()
        weight.grad /= world
    optimizer.step()
dist.destroy_process_group()
