# The right twin of 60-key-set-behind-a-barrier.py: the name is set before the barrier.
# run: torchrun --nproc-per-node 3 examples/broken/60-key-set-behind-a-barrier-fixed.py
# finds: nothing

import os

import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
store = dist.PrefixStore("run", _get_default_store())
rank = dist.get_rank()
name = ""
if rank == 0:
    store.set("name", "lively-otter")
if rank == 1:
    # It writes the log.
    name = store.get("name").decode()
dist.barrier()
print(f"rank {rank} {name}")
dist.barrier()
dist.destroy_process_group()
