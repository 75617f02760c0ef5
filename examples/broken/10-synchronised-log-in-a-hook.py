# Lightning-AI/pytorch-lightning#19604: a hook that only rank 0 runs logs with sync_dist, which
# reduces over all ranks. The other rank is in the gathering that ends the epoch.
# run: torchrun --nproc-per-node 2 examples/broken/10-synchronised-log-in-a-hook.py
# finds: mismatch at line 19 on rank 0, line 32 on rank 1; ranks 0,1

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
        log("learning rate", torch.tensor(0.1), sync_dist=True)


on_train_batch_end(torch.tensor(2.0 + rank))
outputs = [None] * world
dist.all_gather_object(outputs, {"rank": rank})
if rank == 0:
    print(logged, outputs)
dist.destroy_process_group()
