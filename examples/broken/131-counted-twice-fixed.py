# 131-counted-twice, corrected: each rank evaluates a part of its own, of which one may be longer.
# run: torchrun --nproc-per-node 2 examples/broken/131-counted-twice-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(0)
images, labels = torch.randn(4 * world + 1, 64), torch.randint(0, 2, (4 * world + 1,))
dataset = TensorDataset(images, labels)
model = nn.Linear(64, 2).eval()
mine = Subset(dataset, range(rank, len(dataset), world))


def evaluate(loader):
    right = seen = 0
    with torch.no_grad():
        for some, wanted in loader:
            right += int((model(some).argmax(1) == wanted).sum())
            seen += len(wanted)
    return right, seen


counts = torch.tensor(evaluate(DataLoader(mine, batch_size=4)))
dist.all_reduce(counts)
if rank == 0:
    print(f"{counts[0]} of {counts[1]} images are right")
dist.barrier()
dist.destroy_process_group()
