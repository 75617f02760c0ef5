# drift: rank 0 alone averages the parameters, and all ranks evaluate the average.
# run: torchrun --nproc-per-node 2 examples/broken/103-average-of-rank-0.py
# finds: drift at line 30 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
torch.set_num_threads(1)
rank = dist.get_rank()
torch.manual_seed(0)
layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
model = DistributedDataParallel(layers)
average = AveragedModel(layers, multi_avg_fn=get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
torch.manual_seed(1 + rank)
for _ in range(12):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
    if rank == 0:
        average.update_parameters(layers)
average.eval()
with torch.no_grad():
    right = (average(torch.randn(64, 16)) > 0).sum()
dist.all_reduce(right)
dist.barrier()
dist.destroy_process_group()
