# 105-lock-left-behind, corrected: what was left is removed, by a rank that knows of no builder.
# run: torchrun --nproc-per-node 2 examples/broken/105-lock-left-behind-fixed.py
# finds: nothing

import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.file_baton import FileBaton

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
with tempfile.TemporaryDirectory() as own:
    folder = [own]
    dist.broadcast_object_list(folder)
    lock = Path(folder[0], "lock")
    if rank == 0:
        lock.touch()
        lock.unlink()
    dist.barrier()
    baton = FileBaton(str(lock))
    if baton.try_acquire():
        baton.release()
    else:
        baton.wait()
    dist.all_reduce(torch.ones(1))
    dist.barrier()
dist.destroy_process_group()
