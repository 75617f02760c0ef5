# Silent: right answers and samples are counted, and summed up, in the type of the model. bfloat16
# has every whole number up to 256 alone, so the counts stop growing.
# run: torchrun --nproc-per-node 2 examples/broken/126-counts-in-bfloat16.py
# finds: race at line 24 on ranks 0,1; ranks 0,1

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
counts = torch.zeros(2, 2, dtype=model.weight.dtype)
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
