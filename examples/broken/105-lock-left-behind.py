# straggler: the lock of an extension's build is left by a job that was killed; all ranks wait.
# run: torchrun --nproc-per-node 2 examples/broken/105-lock-left-behind.py
# finds: straggler at line 28 on ranks 0,1; ranks 0,1

import os
import tempfile
import threading
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
        threading.Timer(8, lock.unlink).start()  # so that this example ends
    dist.barrier()
    baton = FileBaton(str(lock))
    if baton.try_acquire():
        baton.release()
    else:
        baton.wait()
    dist.all_reduce(torch.ones(1))
    dist.barrier()
dist.destroy_process_group()
