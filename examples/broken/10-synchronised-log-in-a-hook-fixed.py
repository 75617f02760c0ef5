# The right twin of 10-synchronised-log-in-a-hook.py: what rank 0 logs alone is not synchronised.
# run: torchrun --nproc-per-node 2 examples/broken/10-synchronised-log-in-a-hook-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
logged = {}


def log(name, value, sync_dist=False):
    if sync_dist:
        value = value.clone()
        dist.all_reduce(value)
        value = value / world
    logged[name] = value.item()


def on_train_batch_end(loss):
    log("loss", loss, sync_dist=True)
    if rank == 0:
        log("learning rate", torch.tensor(0.1))


on_train_batch_end(torch.tensor(2.0 + rank))
outputs = [None] * world
dist.all_gather_object(outputs, {"rank": rank})
if rank == 0:
    print(logged, outputs)
    assert logged["loss"] == 2.5
    assert [one["rank"] for one in outputs] == [0, 1]
dist.barrier()
dist.destroy_process_group()
