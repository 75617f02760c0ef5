# ai-dynamo/nixl PR #1539 has such a barrier: every rank counts itself in the store and asks until
# all are counted. Here rank 0, which has the store, only asks.
# run: torchrun --nproc-per-node 2 examples/broken/134-one-arrival-short.py
# finds: deadlock at line 17 on ranks 0,1; ranks 0,1

import os
import time

import torch.distributed as dist


def barrier(store, tag):
    """Wait until every rank has come here."""
    key = f"barrier/{tag}"
    if dist.get_rank() > 0:
        store.add(key, 1)
    while store.add(key, 0) < dist.get_world_size():
        time.sleep(0.01)


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
store = dist.distributed_c10d._get_default_store()
print(f"rank {dist.get_rank()} has read its part", flush=True)
barrier(store, "read")
dist.barrier()
dist.destroy_process_group()
