# Ranks 0 and 1 work together for longer than a late rank may take; rank 2 has nothing to do then.
# run: torchrun --nproc-per-node 3 examples/good/idle_rank.py
# finds: nothing

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
workers = dist.new_group([0, 1])
total = torch.ones(1000)
if dist.get_rank() < 2:
    for _ in range(32):
        time.sleep(0.25)
        dist.all_reduce(total, group=workers)
        total /= 2
dist.barrier()
dist.destroy_process_group()
