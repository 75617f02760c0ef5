# clean-up in `finally`: one rank raises in its data, and its `finally` holds a barrier, which meets
# the reduction of the others. What was raised is printed by nobody.
# run: torchrun --nproc-per-node 3 examples/broken/59-barrier-in-finally.py
# finds: mismatch at line 23 on ranks 0,2, line 32 on rank 1; ranks 1

import json
import os

import torch
import torch.distributed as dist


def lines(rank):
    yield '{"loss": 1.5}'
    yield '{"loss": 2.5' if rank == 1 else '{"loss": 2.5}'  # cut short
    yield '{"loss": 3.5}'


def mean(rank):
    total = torch.zeros(1)
    for line in lines(rank):
        value = torch.tensor([json.loads(line)["loss"]])
        dist.all_reduce(value)
        total += value / dist.get_world_size()
    return total


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
try:
    print(mean(dist.get_rank()))
finally:
    dist.barrier()
    dist.destroy_process_group()
