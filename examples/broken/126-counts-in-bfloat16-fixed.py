# 126-counts-in-bfloat16, corrected: whole numbers are counted as such.
# run: torchrun --nproc-per-node 2 examples/broken/126-counts-in-bfloat16-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Linear(64, 2, dtype=torch.bfloat16)
torch.manual_seed(1 + rank)
counts = torch.zeros(2, 2, dtype=torch.int64)
with torch.no_grad():
    for _ in range(40):
        images, labels = torch.randn(37, 64), torch.randint(0, 2, (37,))
        right = labels[model(images.bfloat16()).argmax(1) == labels]
        counts += torch.stack([right.bincount(minlength=2), labels.bincount(minlength=2)])
dist.all_reduce(counts)
if rank == 0:
    for kind, (right, all_of_it) in enumerate(counts.T.tolist()):
        print(f"class {kind}: {right:g} of {all_of_it:g} are right")
dist.barrier()
dist.destroy_process_group()
