# The right twin of 85-lock-kept-over-barrier.py: the lock is let go of before the ranks meet.
# run: torchrun --nproc-per-node 2 examples/broken/85-lock-kept-over-barrier-fixed.py
# finds: nothing

import fcntl
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
time.sleep(1.5 * dist.get_rank())  # rank 0 is the first; rank 1 stands still before it waits
with Path(__file__).open() as lock:  # in place of that of the cache
    fcntl.flock(lock, fcntl.LOCK_EX)
    tokens = torch.arange(100)
dist.barrier()
dist.all_reduce(tokens)
dist.destroy_process_group()
