# The right twin of 37-buffers-overlap.py: the parts do not overlap.
# run: torchrun --nproc-per-node 2 examples/broken/37-buffers-overlap-fixed.py
# finds: nothing

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
flat = torch.ones(2_000_000)
first, second = flat[:1_000_000], flat[1_000_000:]
handles = [dist.all_reduce(first, async_op=True)]
time.sleep(0.2)  # the backward of the layer before
handles.append(dist.all_reduce(second, async_op=True))
for handle in handles:
    handle.wait()
wrong = int((flat != world).sum())
print(f"rank {rank}: {wrong} elements are wrong")
assert wrong == 0
dist.barrier()
dist.destroy_process_group()
