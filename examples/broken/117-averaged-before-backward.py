# NVIDIA/apex#664: the loss is averaged over the ranks, and its backward begun at that. all_reduce
# sends no gradient back, so the division alone counts, and DDP divides once more.
# run: torchrun --nproc-per-node 2 examples/broken/117-averaged-before-backward.py
# finds: drift at line 23 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + rank)
for _ in range(12):
    images, labels = torch.randn(16, 64), torch.randint(0, 10, (16,))
    loss = nn.functional.cross_entropy(model(images), labels)
    dist.all_reduce(loss)
    loss /= world
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
