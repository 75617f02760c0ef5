# The right twin of 34-two-versions-of-the-script.py: all ranks run one version.
# run: torchrun --nproc-per-node 2 examples/broken/34-two-versions-of-the-script-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
NODE_OF_RANK = {0: "node-a", 1: "node-b"}
VERSION_ON = {"node-a": 2, "node-b": 2}


def mean_of_version_2(metric):
    dist.all_reduce(metric)
    return metric / world


def mean_of_version_1(metric):
    metrics = [torch.zeros(1) for _ in range(world)]
    dist.all_gather(metrics, metric)
    return torch.stack(metrics).mean()


newer = VERSION_ON[NODE_OF_RANK[rank]] == 2
mean = (mean_of_version_2 if newer else mean_of_version_1)(torch.tensor([1.0 + rank]))
print(f"rank {rank}: metric {mean.item():.1f}")
assert mean == 1.5
dist.barrier()
dist.destroy_process_group()
