# ranks leave word for one another in the store: rank 1 waits there for the name of the run, which
# rank 0 sets behind a barrier of all. Each wait looks right by itself, and the store is no group.
# run: torchrun --nproc-per-node 3 examples/broken/60-key-set-behind-a-barrier.py
# finds: deadlock at line 17 on rank 1, line 18 on ranks 0,2; ranks 0,1,2

import os

import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
store = dist.PrefixStore("run", _get_default_store())
rank = dist.get_rank()
name = ""
if rank == 1:
    # It writes the log.
    name = store.get("name").decode()
dist.barrier()
if rank == 0:
    store.set("name", "lively-otter")
print(f"rank {rank} {name}")
dist.barrier()
dist.destroy_process_group()
