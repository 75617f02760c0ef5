# 135-settings-of-rank-0, corrected: rank 0 tells the others what is to be tried.
# run: torchrun --nproc-per-node 2 examples/broken/135-settings-of-rank-0-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def settings():
    """What rank 0 is to try, which has asked the search, on every rank."""
    found = {"dropout": 0.1, "hidden": 64}
    if dist.get_rank() == 0:
        found["dropout"] = 0.4
    told = [found]
    dist.broadcast_object_list(told, src=0)
    return told[0]


def main():
    rank, config = dist.get_rank(), settings()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = nn.Linear(32, config["hidden"]), nn.ReLU(), nn.Dropout(config["dropout"])
    model = DistributedDataParallel(nn.Sequential(*layers, nn.Linear(config["hidden"], 4)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    torch.manual_seed(1 + rank)
    for _ in range(16):
        features, labels = torch.randn(8, 32), torch.randint(0, 4, (8,))
        optimizer.zero_grad()
        criterion(model(features), labels).backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
main()
