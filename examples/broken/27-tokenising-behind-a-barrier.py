# JIA-Lab-research/LongLoRA#45: rank 0 prepares the data while the others sit in a barrier, for
# longer than its timeout. Nothing hangs: rank 0 is late, and that must be said before the
# timeout.
# run: torchrun --nproc-per-node 2 examples/broken/27-tokenising-behind-a-barrier.py
# finds: straggler at line 20 or 21 or 28 on rank 0; ranks 0

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
TEXT = "the quick brown fox jumps over the lazy dog"


def tokenise(seconds):
    until, tokens = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        tokens += len(TEXT.split())
    return tokens


total = torch.ones(1000)
dist.all_reduce(total)
if rank == 0:
    count = tokenise(seconds=12)
dist.barrier()
dist.all_reduce(total)
if rank == 0:
    print(f"all have their data: {count} tokens")
assert (total == world * world).all()
dist.destroy_process_group()
