# pytorch/ignite#2623: consolidate_state_dict of ZeroRedundancyOptimizer, in which all ranks send
# their part to one, is called by that one alone. The other rank is at the barrier.
# run: torchrun --nproc-per-node 2 examples/broken/29-consolidate-on-rank-0.py
# finds: mismatch at line 24 on rank 0, line 27 on rank 1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32)))
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)
for _ in range(3):
    model(torch.randn(8, 32)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
if rank == 0:
    optimizer.consolidate_state_dict(to=0)
    saved = optimizer.state_dict()
    print(f"{len(saved['state'])} parameters have a state")
dist.barrier()
dist.destroy_process_group()
