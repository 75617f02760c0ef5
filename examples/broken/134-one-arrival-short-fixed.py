# 134-one-arrival-short, corrected: every rank counts itself.
# run: torchrun --nproc-per-node 2 examples/broken/134-one-arrival-short-fixed.py
# finds: nothing

import os
import time

import torch.distributed as dist


def barrier(store, tag):
    """Wait until every rank has come here."""
    key = f"barrier/{tag}"
    store.add(key, 1)
    while store.add(key, 0) < dist.get_world_size():
        time.sleep(0.01)


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
store = dist.distributed_c10d._get_default_store()
print(f"rank {dist.get_rank()} has read its part", flush=True)
barrier(store, "read")
dist.barrier()
dist.destroy_process_group()
