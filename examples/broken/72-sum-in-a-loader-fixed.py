# The right twin of 72-sum-in-a-loader.py: the process that joined the group reduces what its worker
# has loaded.
# run: torchrun --nproc-per-node 2 examples/broken/72-sum-in-a-loader-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
dataset = TensorDataset(torch.randn(64, 4))
sampler = DistributedSampler(dataset)
dist.barrier()
for (batch,) in DataLoader(dataset, 8, sampler=sampler, num_workers=1):
    mean = batch.mean(0)
    dist.all_reduce(mean)
    batch -= mean / dist.get_world_size()
    assert batch.shape == (8, 4)
dist.destroy_process_group()
