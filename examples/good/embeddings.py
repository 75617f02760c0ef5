# A recommender: each rank holds tables of its own and looks up rows for all, an all_to_all brings
# them to who needs them, and the layers above are replicas. Tokens go to experts in uneven numbers.
# run: torchrun --nproc-per-node 4 examples/good/embeddings.py
# finds: nothing

import os

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as functional
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
tables = nn.ModuleList(nn.EmbeddingBag(1000, 16, mode="sum") for _ in range(2))
top = DistributedDataParallel(nn.Sequential(nn.Linear(32 * world, 64), nn.ReLU(), nn.Linear(64, 1)))
optimizers = [torch.optim.Adagrad(tables.parameters()), torch.optim.Adam(top.parameters())]
rows = 8 * world
for _ in range(8):
    wanted = torch.randint(0, 1000, (rows, 2, 5))
    of_all = [torch.empty_like(wanted) for _ in range(world)]
    dist.all_gather(of_all, wanted)
    ids = torch.cat(of_all)
    found = torch.cat([table(ids[:, number]) for number, table in enumerate(tables)], 1)
    mine = functional.all_to_all_single(torch.empty(world * rows, 32), found.contiguous())
    features = mine.view(world, rows, 32).transpose(0, 1).reshape(rows, -1)
    top(features).square().mean().backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
    sends = torch.randint(1, 6, (world,))
    receives = torch.empty_like(sends)
    dist.all_to_all_single(receives, sends)
    tokens, experts = torch.randn(int(sends.sum()), 8), torch.empty(int(receives.sum()), 8)
    dist.all_to_all_single(experts, tokens, receives.tolist(), sends.tolist())
dist.destroy_process_group()
