# two parts of one flat buffer are reduced at the same time, and they overlap: elements in both
# are summed twice, or lost.
# run: torchrun --nproc-per-node 2 examples/broken/37-buffers-overlap.py
# finds: race at line 18 on ranks 0,1; ranks 0,1

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
flat = torch.ones(2_000_000)
first, second = flat[:1_200_000], flat[1_000_000:]
handles = [dist.all_reduce(first, async_op=True)]
time.sleep(0.2)  # the backward of the layer before
handles.append(dist.all_reduce(second, async_op=True))
for handle in handles:
    handle.wait()
wrong = int((flat != world).sum())
print(f"rank {rank}: {wrong} elements are wrong")
dist.barrier()
dist.destroy_process_group()
