# pytorch/pytorch#25162: DistributedSampler gives each rank as many images, and where their number
# does not divide the dataset's it begins that anew: the first ones are evaluated twice, and count.
# run: torchrun --nproc-per-node 2 examples/broken/131-counted-twice.py
# finds: data at line 33 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(0)
images, labels = torch.randn(4 * world + 1, 64), torch.randint(0, 2, (4 * world + 1,))
dataset = TensorDataset(images, labels)
model = nn.Linear(64, 2).eval()
sampler = DistributedSampler(dataset, shuffle=False)


def evaluate(loader):
    right = seen = 0
    with torch.no_grad():
        for some, wanted in loader:
            right += int((model(some).argmax(1) == wanted).sum())
            seen += len(wanted)
    return right, seen


counts = torch.tensor(evaluate(DataLoader(dataset, batch_size=4, sampler=sampler)))
dist.all_reduce(counts)
if rank == 0:
    print(f"{counts[0]} of {counts[1]} images are right")
dist.barrier()
dist.destroy_process_group()
