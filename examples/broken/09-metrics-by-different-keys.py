# Lightning-AI/pytorch-lightning#19106: every metric is reduced over ranks as it is logged, and
# one rank has a key more than the other. From there on the reductions are one apart: a metric
# meets a gradient.
# run: torchrun --nproc-per-node 2 examples/broken/09-metrics-by-different-keys.py
# finds: mismatch at line 20 on rank 0, line 27 on rank 1; ranks 0,1

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
if rank == 0:
    metrics["accuracy of rare classes"] = 0.5
means = log_dict(metrics)
gradient = train()
if rank == 0:
    print(means)
dist.destroy_process_group()
