# 108-discriminator-by-itself, corrected: both models are under DDP.
# run: torchrun --nproc-per-node 2 examples/broken/108-discriminator-by-itself-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as loss_of
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
torch.manual_seed(0)
data = TensorDataset(torch.randn(512, 64))
loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
maker = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 64))
maker = DistributedDataParallel(maker)
judge = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1))
judge = DistributedDataParallel(judge)
of_maker = torch.optim.Adam(maker.parameters(), lr=0.001)
of_judge = torch.optim.Adam(judge.parameters(), lr=0.001)
torch.manual_seed(1 + dist.get_rank())
real, made = torch.ones(16, 1), torch.zeros(16, 1)
for (images,) in loader:
    noise = torch.randn(16, 16)
    of_judge.zero_grad()
    told = loss_of(judge(images), real) + loss_of(judge(maker(noise).detach()), made)
    told.backward()
    of_judge.step()
    judge.requires_grad_(False)
    of_maker.zero_grad()
    loss_of(judge(maker(noise)), real).backward()
    of_maker.step()
    judge.requires_grad_(True)
dist.barrier()
dist.destroy_process_group()
