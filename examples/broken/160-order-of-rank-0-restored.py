# bghira/SimpleTuner#2986: rank 0 alone has saved its part of the data. When the job goes on it
# takes that, and the other rank its part of a new order: some samples are in both, some in none.
# run: torchrun --nproc-per-node 2 examples/broken/160-order-of-rank-0-restored.py
# finds: data at line 26 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
images, labels = torch.randn(512, 64), torch.randint(0, 10, (512,))
saved = torch.randperm(512, generator=torch.Generator().manual_seed(11))[rank::ranks]
order = torch.randperm(512, generator=torch.Generator().manual_seed(12))[rank::ranks]
if rank == 0:
    order = saved
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for batch in order.split(16):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
    optimizer.step()
dist.destroy_process_group()
