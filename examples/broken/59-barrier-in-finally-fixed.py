# The right twin of 59-barrier-in-finally.py: the error is met where it is raised.
# run: torchrun --nproc-per-node 3 examples/broken/59-barrier-in-finally-fixed.py
# finds: nothing

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
        try:
            value = torch.tensor([json.loads(line)["loss"]])
        except json.JSONDecodeError:
            value = torch.zeros(1)
        dist.all_reduce(value)
        total += value / dist.get_world_size()
    return total


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
print(mean(dist.get_rank()))
dist.barrier()
dist.destroy_process_group()
