# The right twin of 09-metrics-by-different-keys.py: all ranks log the same keys.
# run: torchrun --nproc-per-node 2 examples/broken/09-metrics-by-different-keys-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()


def log_dict(metrics):
    means = {}
    for name, value in metrics.items():
        mean = torch.tensor(value)
        dist.all_reduce(mean)
        means[name] = mean.item() / world
    return means


def train():
    gradient = torch.ones(50_000)
    dist.all_reduce(gradient)
    return gradient / world


train()
metrics = {"loss": 1.0 + rank}
metrics["accuracy of rare classes"] = 0.5 if rank == 0 else 0.0
means = log_dict(metrics)
gradient = train()
if rank == 0:
    print(means)
assert means["loss"] == 1.5
assert gradient.unique().item() == 1.0
dist.barrier()
dist.destroy_process_group()
