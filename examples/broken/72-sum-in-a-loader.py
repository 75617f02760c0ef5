# The function that puts a batch together reduces a statistic over ranks. The loader's worker calls
# it, a process that was forked when the group was joined: the threads that carry the group's calls
# are not in it.
# run: torchrun --nproc-per-node 2 examples/broken/72-sum-in-a-loader.py
# finds: deadlock at line 17 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def centred(samples: list[tuple[torch.Tensor]]) -> torch.Tensor:
    batch = torch.stack([sample for (sample,) in samples])
    mean = batch.mean(0)
    dist.all_reduce(mean)
    return batch - mean / dist.get_world_size()


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
dataset = TensorDataset(torch.randn(64, 4))
sampler = DistributedSampler(dataset)
dist.barrier()
for batch in DataLoader(dataset, 8, sampler=sampler, num_workers=1, collate_fn=centred):
    assert batch.shape == (8, 4)
dist.destroy_process_group()
