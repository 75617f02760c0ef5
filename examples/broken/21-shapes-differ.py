# NVIDIA/nccl#1394 and pytorch/pytorch#97191: the last batch of one rank is smaller, and the
# tensors that are summed have different shapes. gloo ends the process, others hang or return
# garbage.
# run: torchrun --nproc-per-node 2 examples/broken/21-shapes-differ.py
# finds: mismatch at line 17 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
for step in range(3):
    rows = 24 if rank == 1 and step == 2 else 32
    features = torch.ones(rows, 128)
    dist.all_reduce(features)
if rank == 0:
    print(f"sum {features.sum().item():.0f}")
dist.destroy_process_group()
