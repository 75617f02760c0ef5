# The right twin of 27-tokenising-behind-a-barrier.py: every rank prepares its part.
# run: torchrun --nproc-per-node 2 examples/broken/27-tokenising-behind-a-barrier-fixed.py
# finds: nothing

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
count = tokenise(seconds=0.2)
dist.barrier()
assert count > 0
dist.all_reduce(total)
if rank == 0:
    print(f"all have their data: {count} tokens")
assert (total == world * world).all()
dist.destroy_process_group()
