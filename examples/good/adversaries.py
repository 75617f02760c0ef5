# Two models that are trained in turn: each backward is reduced, and its own optimizer takes it. The
# generator's step runs the other model past DDP, with parameters that need no gradient then.
# run: torchrun --nproc-per-node 3 examples/good/adversaries.py
# finds: nothing

import copy
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
maker = DistributedDataParallel(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 32)))
critic = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)))
average = copy.deepcopy(maker.module)
for_maker = torch.optim.Adam(maker.parameters(), 1e-3)
for_critic = torch.optim.Adam(critic.parameters(), 1e-3)
torch.manual_seed(rank)
for step in range(12):
    for _ in range(2):
        with torch.no_grad():
            made = maker(torch.randn(24, 16))
        marks = critic(torch.cat([made, torch.randn(24, 32)]))
        for_critic.zero_grad()
        (marks[:24].mean() - marks[24:].mean()).backward()
        for_critic.step()
    critic.requires_grad_(False)
    for_maker.zero_grad()
    (-critic.module(maker(torch.randn(24, 16))).mean()).backward()
    for_maker.step()
    critic.requires_grad_(True)
    with torch.no_grad():
        for slow, fast in zip(average.parameters(), maker.module.parameters(), strict=True):
            slow.lerp_(fast, 0.1)
    if step % 5 == 0:
        seen = marks.detach().mean()
        dist.all_reduce(seen)
dist.destroy_process_group()
